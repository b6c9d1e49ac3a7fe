// Where and as whom a command runs, and what it finds in its environment.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "environment";

/// A variable of an exec, as the command sees it.
Check carries(std::string name, std::string value)
{
    const auto run = [value = std::move(value)](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        auto exec = Context::shell("printf '<%s>' \"$CHECKED\"");
        exec.env["CHECKED"] = value;
        BERTH_TRY(const auto ran, c.run(sandbox, exec));
        return same("the variable", ran.out, "<" + value + ">");
    };
    return {kGroup, std::move(name), {}, run};
}

Check bad_variable(std::string name, std::string variable, std::string value)
{
    const auto run = [=](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        auto exec = Context::shell("true");
        exec.env[variable] = value;
        return refused("the variable", c.await(c.backend().exec(sandbox, exec)), Code::Invalid);
    };
    return {kGroup, std::move(name), {}, run};
}

Status precedence(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.env = {{"FROM_SPEC", "spec"}, {"FROM_BOTH", "spec"}};
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    auto exec = Context::shell("echo $FROM_SPEC $FROM_BOTH $FROM_EXEC");
    exec.env = {{"FROM_BOTH", "exec"}, {"FROM_EXEC", "exec"}};
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(same("what a command sees", ran.out, "spec exec exec\n"));
    BERTH_TRY(const auto later, c.output(sandbox, "echo $FROM_SPEC $FROM_BOTH $FROM_EXEC"));
    return same("what the next one sees", later, "spec spec\n");
}

Status path_can_be_replaced(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("echo $PATH");
    exec.env["PATH"] = "/bin:/usr/bin:/conformance";
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return same("PATH", ran.out, "/bin:/usr/bin:/conformance\n");
}

Status usual_variables(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("test -n \"$PATH\" && test -n \"$HOME\" && cd \"$HOME\" && echo ok"));
    return same("a look at PATH and HOME", ran.out, "ok\n");
}

Status host_is_not_inherited(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("env"));
    return lacks("the environment inside", ran.out, Place::kCanary);
}

Status secrets_are_not_arguments(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto holder = Context::shell("echo ready; sleep 30");
    holder.env["TOKEN"] = "s3cr3t-of-this-check";
    BERTH_CHECK(c.start(sandbox, holder));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, holder.id, "ready", from));
    BERTH_TRY(const auto arguments,
              c.sh("for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"));
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, holder.id))));
    // Where commands share their loopback they see each other: then the holder must have been looked at.
    const bool shared = c.backend().capabilities().can(Operation::Ports);
    BERTH_CHECK(contains("the list of processes", arguments.out, shared ? "sleep 30" : "cmdline"));
    BERTH_CHECK(lacks("the list of processes", arguments.out, "s3cr3t-of-this-check"));
    BERTH_TRY(const auto other, c.sh("env"));
    return lacks("the environment of another command", other.out, "s3cr3t-of-this-check");
}

Status default_directory(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.workdir = "/usr";
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(const auto where, c.output(sandbox, "pwd; echo $PWD"));
    return same("the working directory", where, "/usr\n/usr\n");
}

Status given_directory(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    auto exec = Context::shell("pwd");
    exec.cwd = dir;
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return same("the working directory", ran.out, dir + "\n");
}

Status missing_directory(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("pwd");
    exec.cwd = "/no/such/directory";
    return refused("the command", c.await(c.backend().exec(sandbox, exec)), Code::NotFound);
}

Status file_as_directory(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("pwd");
    exec.cwd = "/etc/passwd";
    return refused("the command", c.await(c.backend().exec(sandbox, exec)));
}

Status one_user(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_CHECK(c.write(sandbox, dir + "/file", "x"));
    BERTH_TRY(const auto ran,
              c.output(sandbox, fmt::format("cd {}; touch made; test -O file && test -O made && "
                                            "echo one user",
                                            dir)));
    return same("who owns what was made by a command and from outside", ran, "one user\n");
}

Status another_user(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("id -u");
    exec.user = "root";
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(same("the user id of root", ran.out, "0\n"));
    BERTH_TRY(const auto usual, c.output(sandbox, "id -u"));
    return expect(usual != "0\n", "the usual user is root");
}

Status unknown_user(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("true");
    exec.user = "nobody-of-this-name";
    return refused("the command", c.await(c.backend().exec(sandbox, exec)));
}

Status host_name(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.hostname = "conformance-host";
    const auto sandbox = c.create(std::move(spec));
    if (!sandbox && sandbox.error().code == Code::Unsupported) return c.not_offered("host names");
    if (!sandbox) return std::unexpected(sandbox.error());
    BERTH_TRY(const auto name, c.output(*sandbox, "cat /proc/sys/kernel/hostname"));
    return same("the host name", name, "conformance-host\n");
}

Status few_descriptors(Context& c)
{
    // The shell itself opens the directory it lists; nothing else but the three streams may be there.
    BERTH_TRY(const auto ran,
              c.sh("for f in /proc/$$/fd/*; do n=${f##*/}; [ $n -le 2 ] || readlink $f; done"));
    for (const auto& line : {"socket:", "memfd", "/state", "pipe:"})
        BERTH_CHECK(lacks("the further descriptors of a command", ran.out, line));
    return {};
}

Status signals_are_usual(Context& c)
{
    // A parent that ignores SIGPIPE must not hand that on: `yes | head` would never end.
    BERTH_TRY(const auto ran, c.sh("(while :; do echo y; done) | head -n 1; echo done"));
    return same("a pipe whose reader goes away", ran.out, "y\ndone\n");
}

} // namespace

std::vector<Check> environment_checks()
{
    return {
        carries("a value with a newline arrives", "one\ntwo\n"),
        carries("a value with an equals sign arrives", "a=b=c"),
        carries("an empty value arrives", ""),
        carries("a value of many languages arrives", "grüße 日本語 🚀"),
        carries("a value with quotes and dollars arrives", "\"$HOME\" 'x' `id`"),
        carries("a value of 100 KiB arrives", std::string(100 * 1024, 'v')),
        bad_variable("a name with an equals sign is invalid", "A=B", "x"),
        bad_variable("an empty name is invalid", "", "x"),
        bad_variable("a value with a NUL is invalid", "A", std::string("a\0b", 3)),
        {kGroup, "an exec's variables come over the sandbox's, for itself alone", {}, precedence},
        {kGroup, "PATH can be replaced", {}, path_can_be_replaced},
        {kGroup, "PATH is there, and HOME leads somewhere", {}, usual_variables},
        {kGroup, "nothing of the caller's environment is inherited", {}, host_is_not_inherited},
        {kGroup, "a value is seen by no other command", {}, secrets_are_not_arguments},
        {kGroup, "commands start in the sandbox's working directory", {}, default_directory},
        {kGroup, "an exec may name its working directory", {}, given_directory},
        {kGroup, "a missing working directory is not found", {}, missing_directory},
        {kGroup, "a file is no working directory", {}, file_as_directory},
        {kGroup, "commands and files have one user", {}, one_user},
        {kGroup, "an exec may name its user", {Operation::Users}, another_user},
        {kGroup, "an unknown user is refused", {}, unknown_user},
        {kGroup, "the host name is the sandbox's", {}, host_name},
        {kGroup, "a command inherits its three streams and nothing else", {}, few_descriptors},
        {kGroup, "a command starts with the usual signals", {}, signals_are_usual},
    };
}

} // namespace berth::conformance
