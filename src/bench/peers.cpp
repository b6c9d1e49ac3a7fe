#include "bench/peers.hpp"

#include <unistd.h>

#include "bench/command.hpp"

namespace berth::bench {

namespace {

std::vector<std::string> bwrap_words(const std::string& program, const std::string& workspace)
{
    return {program,
            "--new-session",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--dev",
            "/dev",
            "--bind",
            workspace,
            workspace,
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-net",
            "--proc",
            "/proc",
            "--",
            kTrue};
}

std::vector<std::string> nsjail_words(const std::string& program, const std::string& workspace)
{
    // Its defaults for limits assume that it may raise them; told to keep ours it works everywhere.
    return {program,
            "--mode",
            "o",
            "--really_quiet",
            "--bindmount_ro",
            "/:/",
            "--bindmount",
            workspace,
            "--rlimit_as",
            "soft",
            "--rlimit_fsize",
            "soft",
            "--rlimit_nofile",
            "soft",
            "--rlimit_stack",
            "soft",
            "--",
            kTrue};
}

} // namespace

Skipped absent(const std::string& name)
{
    if (name == kNsjail)
        return {.name = name, .reason = "not in PATH", .remedy = "build it: Debian 12 has no package of it"};
    const std::string package = name == kBwrap ? "bubblewrap" : name;
    return {.name = name, .reason = "not in PATH", .remedy = "apt-get install " + package};
}

Peers process_peers(Context& context)
{
    Peers peers;
    // Always there, always empty: a writable workspace as an agent would have one.
    const std::string workspace = context.state().mount_point();
    for (const std::string name : {kBwrap, kNsjail}) {
        const std::string program = find_program(name);
        if (program.empty()) {
            peers.skipped.push_back(absent(name));
            continue;
        }
        const auto words =
            name == kBwrap ? bwrap_words(program, workspace) : nsjail_words(program, workspace);
        auto made = Command::make(words, {.quiet = true, .foreign = true});
        if (!made) {
            peers.skipped.push_back({.name = name, .reason = made.error().line()});
            continue;
        }
        const auto command = std::make_shared<Command>(*std::move(made));
        if (const auto tried = command->time(); !tried) {
            peers.skipped.push_back({.name = name, .reason = tried.error().line()});
            continue;
        }
        peers.cases.push_back({.name = name, .run = [command] { return command->time(); }});
    }
    return peers;
}

} // namespace berth::bench
