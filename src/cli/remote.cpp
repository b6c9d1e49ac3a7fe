#include "cli/remote.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/usage.hpp"
#include "cli/verbs.hpp"

namespace berth::cli::remote {

namespace {

struct RemoteVerb {
    std::string_view name;
    int (*run)(Server&, int, char**);
};

constexpr RemoteVerb kVerbs[] = {
    {"create", create_verb}, {"ls", ls_verb},       {"inspect", inspect_verb},     {"start", start_verb},
    {"stop", stop_verb},     {"pause", pause_verb}, {"resume", resume_verb},       {"rm", rm_verb},
    {"exec", exec_verb},     {"logs", logs_verb},   {"snapshot", snapshot_verb},   {"fork", fork_verb},
    {"cp", cp_verb},         {"shell", shell_verb}, {"snapshots", snapshots_verb}, {"restore", restore_verb},
    {"events", events_verb}, {"port", port_verb},   {"kill", kill_verb},           {"input", input_verb},
};

/// About this machine and its program, whatever server there is.
constexpr std::string_view kLocal[] = {"help",   "version", "completion",  "serve",    "key",        "doctor",
                                       "policy", "bench",   "exec-server", "template", "conformance"};

std::string environment(const char* name)
{
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): before any thread
    return value == nullptr ? std::string{} : std::string(value);
}

} // namespace

Result<Words> take_server(int argc, char** argv)
{
    constexpr std::string_view kOption = "--server";
    Words out;
    bool own = true; // until what follows is the command's
    for (int i = 0; i < argc; ++i) {
        const std::string_view word = argv[i];
        own = own && word != "--";
        if (own && word == kOption) {
            if (i + 1 == argc) return fail(Code::Invalid, "--server needs a URL, like http://127.0.0.1:7600");
            out.server = argv[++i];
            out.by_option = true;
        } else if (own && word.starts_with(kOption) && word.substr(kOption.size()).starts_with('=')) {
            out.server = std::string(word.substr(kOption.size() + 1));
            out.by_option = true;
        } else {
            out.rest.push_back(argv[i]);
        }
    }
    if (!out.server) {
        if (auto named = environment("BERTH_SERVER"); !named.empty()) out.server = std::move(named);
    }
    return out;
}

bool works_there(std::string_view app)
{
    return std::ranges::any_of(
        kVerbs, [&](const RemoteVerb& one) { return app == fmt::format("berth {}", one.name); });
}

std::optional<int> run(const Words& words)
{
    if (!words.server || words.rest.size() < 2) return std::nullopt;
    const std::string_view verb = words.rest[1];
    auto rest = words.rest;
    const int argc = static_cast<int>(rest.size());
    const Common common{.json = asks_json(argc, rest.data())};
    for (const auto& known : kLocal) {
        if (known != verb) continue;
        if (!words.by_option) return std::nullopt;
        return report({.code = Code::Unsupported,
                       .message = fmt::format("berth {} is about this machine: it takes no --server", verb)},
                      common);
    }
    if (verb.starts_with('-')) return std::nullopt;
    for (const auto& one : kVerbs) {
        if (one.name != verb) continue;
        auto server = Server::open(*words.server);
        if (!server) return report(server.error(), common, own_failure(verb));
        return one.run(*server, argc - 1, rest.data() + 1);
    }
    if (std::ranges::find(verbs(), verb, &Verb::name) == verbs().end()) return std::nullopt;
    return report({.code = Code::Unsupported,
                   .message = fmt::format("berth {} does not work with a server ({}): {} to use it here",
                                          verb, printable(*words.server, 80),
                                          words.by_option ? "leave --server out" : "unset BERTH_SERVER")},
                  common, own_failure(verb));
}

} // namespace berth::cli::remote
