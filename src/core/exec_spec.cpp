#include "core/exec_spec.hpp"

#include "core/sandbox_spec.hpp"

namespace berth {

namespace {

// MAX_ARG_STRLEN of the kernel: one argument, with its NUL.
constexpr std::size_t kMaxArgument = 32 * 4096;
// A quarter of the usual 8 MiB stack: where execve answers E2BIG.
constexpr std::size_t kMaxArguments = 2u << 20;

} // namespace

Status validate(const ExecSpec& spec)
{
    if (spec.argv.empty() || spec.argv.front().empty())
        return fail(Code::Invalid, "no command given: write it after --, like: berth run -- ls -l");
    std::size_t total = 0;
    for (std::size_t i = 0; i < spec.argv.size(); ++i) {
        const auto& word = spec.argv[i];
        if (word.find('\0') != std::string::npos)
            return fail(Code::Invalid, "argument {} holds a NUL byte", i);
        if (word.size() >= kMaxArgument)
            return fail(Code::Invalid, "argument {} is {} bytes long; the kernel takes {} at most", i,
                        word.size(), kMaxArgument - 1);
        total += word.size() + 1 + sizeof(char*);
    }
    if (total > kMaxArguments)
        return fail(Code::Invalid, "the argument list is {} bytes long; the kernel takes {} at most", total,
                    kMaxArguments);
    BERTH_CHECK(validate_env(spec.env));
    if (!spec.cwd.empty() && (spec.cwd.front() != '/' || spec.cwd.find('\0') != std::string::npos))
        return fail(Code::Invalid, "working directory '{}' is not an absolute path", spec.cwd);
    if (spec.timeout && spec.timeout->count() <= 0)
        return fail(Code::Invalid, "a timeout must be longer than zero");
    return {};
}

} // namespace berth
