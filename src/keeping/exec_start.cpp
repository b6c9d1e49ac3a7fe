#include "keeping/exec_start.hpp"

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "keeping/keeper_client.hpp"

namespace berth::keeping {

Result<std::uint64_t> keeper_id(std::string_view exec)
{
    if (!is_id(exec, "exec_"))
        return fail(Code::Invalid, "'{}' is not the id of an exec", printable(exec, 60));
    constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";
    std::uint64_t number = 0;
    for (const char c : exec.substr(exec.size() - 12)) number = number << 5 | digits.find(c);
    return number | std::uint64_t{1} << 60; // never 0
}

Error start_error(keeper::Step step, int error, const ExecSpec& spec, const std::string& cwd)
{
    const std::error_code sys(error, std::generic_category());
    Error out{.code = code_of_errno(error),
              .message = fmt::format("{}: {}", to_string(step), sys.message()),
              .sys = sys};
    const std::string command = printable(spec.argv.front());
    if (step == keeper::Step::Command && error == ENOENT) {
        out.code = Code::NotFound;
        out.message = fmt::format("command not found in the sandbox: {}", command);
    } else if (step == keeper::Step::Command) {
        out.code = Code::Denied;
        out.message = fmt::format("cannot execute {}: {}", command, sys.message());
    } else if (step == keeper::Step::Directory) {
        out.message = fmt::format("working directory {}: {}", printable(cwd), sys.message());
    }
    return out;
}

} // namespace berth::keeping
