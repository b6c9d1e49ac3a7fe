#include "lifecycle/refusal.hpp"

#include <cerrno>
#include <utility>

#include "base/strings.hpp"

namespace berth {

Error refusal(Error error, const std::string& exec)
{
    const auto as = [&](Code code, std::string message) {
        return Error{.code = code, .message = std::move(message)};
    };
    switch (error.sys.value()) {
    case ESTALE:
        return as(Code::Conflict, fmt::format("exec {}: a later write was taken before; the numbers in "
                                              "\"write\" must grow",
                                              printable(exec, 60)));
    case EPIPE:
        return as(Code::Conflict, fmt::format("exec {} reads no input: it has ended, has closed it, or was "
                                              "started without",
                                              printable(exec, 60)));
    case ENOTTY: return as(Code::Invalid, fmt::format("exec {} has no terminal", printable(exec, 60)));
    default: return error;
    }
}

} // namespace berth
