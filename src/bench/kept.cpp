#include "bench/kept.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "bench/one_shot_check.hpp"
#include "sys/remove_tree.hpp"

namespace berth::bench {

namespace {

constexpr std::chrono::milliseconds kPatience{20000};
constexpr const char* kClosed = "/opt";

} // namespace

void DestroySandbox::operator()(local::Sandbox* sandbox) const noexcept
{
    // What cannot be destroyed is still there when the census looks.
    if (const auto gone = sandbox->destroy(); !gone) log::warn(gone.error().line());
    delete sandbox; // NOLINT(cppcoreguidelines-owning-memory): this is its owner's deleter
}

Result<Kept> make_kept(Context& context, const SandboxSpec& spec, const local::Sandbox::Options& options)
{
    BERTH_TRY(auto made, local::Sandbox::create(context.state(), spec, options));
    return Kept(new local::Sandbox(std::move(made)));
}

ExecSpec exec_of(const std::vector<std::string>& argv)
{
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = argv;
    return exec;
}

Status exec_and_wait(local::Sandbox& sandbox, const ExecSpec& exec)
{
    BERTH_CHECK(sandbox.exec(exec));
    BERTH_TRY(const auto status, sandbox.wait(exec.id, kPatience));
    if (!status)
        return fail(Code::DeadlineExceeded, "{} did not end in {}", exec.argv.front(), show(kPatience));
    if (status->code() != 0)
        return fail(Code::Internal, "{} ended with {}", exec.argv.front(), to_string(*status));
    return {};
}

Result<Told> exec_and_read(local::Sandbox& sandbox, const ExecSpec& exec)
{
    Told told;
    BERTH_CHECK(sandbox.exec(exec));
    BERTH_TRY(auto follower, sandbox.follow(exec.id, 0));
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!follower.ended()) {
        BERTH_TRY(const auto events, follower.next(until));
        for (const auto& event : events) {
            if (event.kind == ExecEvent::Kind::Stdout) told.output += event.bytes;
            if (event.kind == ExecEvent::Kind::Exit) told.status = event.status;
        }
        if (std::chrono::steady_clock::now() > until || follower.keeper_gone())
            return fail(Code::DeadlineExceeded, "the log of {} has no end", exec.argv.front());
    }
    return told;
}

void discard(Context& context, local::Sandbox& sandbox, const std::string& exec)
{
    sandbox.forget(exec);
    const std::string logs = fmt::format("{}/{}/exec", context.state().sandboxes(), sandbox.id());
    const UniqueFd directory(::open(logs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) return;
    if (const auto removed = sys::remove_tree(directory.get(), exec); !removed)
        log::warn(removed.error().line());
}

Status check_kept(Context& context, local::Sandbox& sandbox)
{
    const Token token = make_token();
    const auto write = exec_of({"/bin/sh", "-c", fmt::format("echo {} > {}", token.text, token.path)});
    BERTH_CHECK(exec_and_wait(sandbox, write));
    const auto read = exec_of({"/bin/sh", "-c", fmt::format("cat {}; exit 7", token.path)});
    BERTH_TRY(const auto told, exec_and_read(sandbox, read));
    if (told.output != token.text + "\n")
        return fail(Code::Internal, "a file of {} reads back as '{}'", sandbox.id(), printable(told.output));
    if (told.status.code() != 7)
        return fail(Code::Internal, "'exit 7' in {} ended with {}", sandbox.id(), to_string(told.status));
    discard(context, sandbox, write.id);
    discard(context, sandbox, read.id);
    return check_invisible(token);
}

policy::Policy narrower(const SandboxSpec& spec)
{
    using policy::Access;
    policy::Policy out = spec.policy;
    out.files = {{.access = Access::Read, .target = policy::Symbolic{.symbol = policy::Symbol::Root}},
                 {.access = Access::Write, .target = policy::Symbolic{.symbol = policy::Symbol::Tmpdir}},
                 {.access = Access::Deny, .target = policy::Path{kClosed}}};
    return out;
}

Status check_narrower(Context& context, local::Sandbox& sandbox)
{
    // What was granted works, what was not does not; each line tells itself.
    auto exec =
        exec_of({"/bin/sh", "-c",
                 fmt::format("echo x > /tmp/w && echo wrote; (echo x > ~/w) 2>/dev/null && echo home; "
                             "ls {} 2>/dev/null && echo listed; exit 0",
                             kClosed)});
    exec.policy = narrower(sandbox.spec());
    BERTH_TRY(const auto told, exec_and_read(sandbox, exec));
    discard(context, sandbox, exec.id);
    if (told.output != "wrote\n")
        return fail(Code::Internal, "an exec with a narrower policy could: '{}'", printable(told.output));
    return {};
}

} // namespace berth::bench
