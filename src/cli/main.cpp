#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <utility>

#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/reader_gone.hpp"
#include "cli/remote.hpp"
#include "cli/streams.hpp"
#include "cli/usage.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

const std::vector<Verb>& verbs()
{
    static const std::vector<Verb> all{
        {"run", "Run one command in a throw-away sandbox; its exit code is ours", run_verb},
        {"create", "Make a sandbox that is kept, or find the one that is there", create_verb},
        {"ls", "List sandboxes", ls_verb},
        {"inspect", "Tell everything about a sandbox", inspect_verb},
        {"start", "Make sandboxes usable again", start_verb},
        {"stop", "End the processes of sandboxes, keep their files", stop_verb},
        {"pause", "Freeze sandboxes with their memory", pause_verb},
        {"resume", "Let paused sandboxes go on", resume_verb},
        {"rm", "Destroy sandboxes", rm_verb},
        {"move", "Move a sandbox to another backend", move_verb},
        {"attach", "Use an instance that somebody else made", attach_verb},
        {"detach", "Let a borrowed instance go", detach_verb},
        {"exec", "Run a command in a sandbox that exists", exec_verb},
        {"shell", "Open a shell in a sandbox", shell_verb},
        {"logs", "Show what a command has printed, also while it runs", logs_verb},
        {"input", "Type into a command that runs, and see what it prints", input_verb},
        {"kill", "End one command of a sandbox, or send it a signal", kill_verb},
        {"cp", "Copy files into a sandbox, out of one, or across", cp_verb},
        {"port", "Reach a port of a sandbox from this machine", port_verb},
        {"events", "Tell what happened to sandboxes", events_verb},
        {"snapshot", "Keep the files of a sandbox as they are now", snapshot_verb},
        {"snapshots", "List or remove snapshots", snapshots_verb},
        {"restore", "Bring a snapshot back", restore_verb},
        {"fork", "Make sandboxes from the files of another", fork_verb},
        {"template", "Fetch, import, build, list or remove templates", template_verb},
        {"volume", "List or remove volumes", volume_verb},
        {"policy", "Show, check, explain and prove policies", policy_verb},
        {"serve", "Serve sandboxes to other programs: E2B's protocol, Codex's and berth's own", serve_verb},
        {"exec-server", "Run commands and touch files of this machine for Codex", exec_server_verb},
        {"key", "Make, list or remove API keys of the server", key_verb},
        {"doctor", "Tell what works on this machine, and what would fix the rest", doctor_verb},
        {"gc", "Collect what is idle, overdue or left behind", gc_verb},
        {"bench", "Measure against references in the same run", bench_verb},
        {"conformance", "Check that a backend does what every backend must", conformance_verb},
        {"completion", "Print a completion script for a shell", completion_verb},
        {"version", "Print the version", version_verb},
        {"mind", "Stay with a command that has a timeout", mind_verb, true},
        {"help", "Print this", help_verb, true},
    };
    return all;
}

namespace {

/// Above these verbs, and those that follow.
constexpr std::pair<std::string_view, std::string_view> kHeadings[] = {
    {"run", "Sandboxes"},
    {"exec", "What goes on in them"},
    {"snapshot", "What they are made from"},
    {"serve", "For other programs"},
    {"doctor", "This machine, and berth itself"},
};

} // namespace

int help_verb(int argc, char** argv)
{
    if (argc > 1) {
        for (const auto& verb : verbs()) {
            if (verb.name != argv[1]) continue;
            std::string name(verb.name);
            std::string help = "--help";
            char* words[] = {name.data(), help.data(), nullptr};
            return verb.run(2, &words[0]);
        }
        if (argv[1][0] != '-') // as in help --json
            return report({.code = Code::Invalid, .message = unknown_verb(argv[1])},
                          {.json = asks_json(argc, argv)});
    }
    std::cout << "berth: a safe place for every coding agent to run\n\n"
                 "  berth run -- sh -c 'echo hello from inside'\n"
                 "  berth run --workspace . --memory 2GiB --timeout 10m -- make test\n"
                 "  berth run -it -- bash\n"
                 "  berth create --key demo --workspace .\n"
                 "  berth ls --server http://127.0.0.1:7600        (or BERTH_SERVER; the key in "
                 "BERTH_API_KEY)\n";
    for (const auto& verb : verbs()) {
        for (const auto& [first, heading] : kHeadings)
            if (verb.name == first) std::cout << fmt::format("\n{}:\n", heading);
        if (!verb.hidden) std::cout << fmt::format("  {:<12} {}\n", verb.name, verb.summary);
    }
    std::cout << "\nberth VERB --help shows the options of a verb, with an example.\n";
    return 0;
}

namespace {

int dispatch(int argc, char** argv)
{
    if (argc < 2) {
        help_verb(0, nullptr);
        return 2;
    }
    const std::string_view word = argv[1];
    if (word == "--help" || word == "-h") return help_verb(0, nullptr);
    if (word == "--version" || word == "-V") return version_verb(1, argv + 1);
    for (const auto& verb : verbs())
        if (verb.name == word) return verb.run(argc - 1, argv + 1);
    return report({.code = Code::Invalid, .message = unknown_verb(word)}, {.json = asks_json(argc, argv)});
}

/// What was printed is out, or it was no success. A reader that went away is not worth a word.
int finish_output(int code, std::string_view verb)
{
    errno = 0;
    std::cout.flush();
    if (std::cout.good()) return code;
    const int why = errno;
    if (why != EPIPE && !reader_gone())
        say(why == 0 ? "the output could not be written"
                     : "writing the output: " + std::generic_category().message(why));
    if (code != 0) return code;
    return own_failure(verb).value_or(exit_code(Code::Internal));
}

} // namespace

} // namespace berth::cli

int main(int argc, char** argv)
{
    berth::cli::hold_closed_streams();
    // A reader that goes away is an error of the write, never the end of us.
    std::signal(SIGPIPE, SIG_IGN);
    auto words = berth::cli::remote::take_server(argc, argv);
    if (!words)
        return berth::cli::report(words.error(), {.json = berth::cli::asks_json(argc, argv)},
                                  berth::cli::own_failure(argc > 1 ? argv[1] : ""));
    const auto there = berth::cli::remote::run(*words);
    argc = static_cast<int>(words->rest.size());
    words->rest.push_back(nullptr);
    argv = words->rest.data();
    const int code = there ? *there : berth::cli::dispatch(argc, argv);
    return berth::cli::finish_output(code, argc > 1 ? argv[1] : "");
}
