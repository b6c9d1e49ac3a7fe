#include "core/capabilities.hpp"

namespace berth {

std::string_view to_string(Operation operation) noexcept
{
    switch (operation) {
    case Operation::Pty: return "pty";
    case Operation::Users: return "users";
    case Operation::ExecPolicy: return "exec policy";
    case Operation::Stop: return "stop";
    case Operation::Pause: return "pause";
    case Operation::Snapshot: return "snapshot";
    case Operation::Ports: return "ports";
    case Operation::Watch: return "watch";
    case Operation::Archive: return "archive";
    case Operation::Attach: return "attach";
    }
    return "unknown operation";
}

std::vector<Operation> all_operations()
{
    std::vector<Operation> all;
    for (auto i = static_cast<int>(Operation::Pty); i <= static_cast<int>(Operation::Attach); ++i)
        all.push_back(static_cast<Operation>(i));
    return all;
}

std::unexpected<Error> unsupported(Operation operation, std::string_view backend)
{
    return fail(Code::Unsupported, "backend {} cannot do this: {}", backend, to_string(operation));
}

} // namespace berth
