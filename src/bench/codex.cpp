// Codex's exec-server protocol: ours, and with --peers the real one beside it. A command until its first
// output, and files of 4 KiB under policies for which the real one starts a helper for each call.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "base/encoding.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "bench/bench.hpp"
#include "bench/codex_server.hpp"
#include "bench/command.hpp"
#include "bench/kept.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"

namespace berth::bench {

namespace {

constexpr const char* kWarm = "warm exec until its first output";
constexpr const char* kRound = "a trivial round trip";
constexpr const char* kBoth = "both together";
constexpr const char* kInside = "berth: process/start in a sandbox, with its own policy";
constexpr std::size_t kSize = 4096;

json::Object special(std::string_view kind, std::string_view access)
{
    json::Object value;
    value["kind"] = kind;
    json::Object path;
    path["type"] = "special";
    path["value"] = std::move(value);
    json::Object out;
    out["path"] = std::move(path);
    out["access"] = access;
    return out;
}

json::Object at(const std::string& place, std::string_view access)
{
    json::Object path;
    path["type"] = "path";
    path["path"] = "file://" + place;
    json::Object out;
    out["path"] = std::move(path);
    out["access"] = access;
    return out;
}

json::Object deny_pattern(const std::string& pattern)
{
    json::Object path;
    path["type"] = "glob_pattern";
    path["pattern"] = pattern;
    json::Object out;
    out["path"] = std::move(path);
    out["access"] = "deny";
    return out;
}

/// A policy as Codex sends it.
struct Intent {
    const char* name;
    json::Array entries;
};

json::Object intent(const json::Array& entries, const std::string& work)
{
    json::Object files;
    files["type"] = "restricted";
    files["entries"] = entries;
    json::Object permissions;
    permissions["type"] = "managed";
    permissions["file_system"] = std::move(files);
    permissions["network"] = "restricted";
    json::Object out;
    out["permissions"] = std::move(permissions);
    out["cwd"] = "file://" + work;
    out["workspaceRoots"] = json::Array{json::Value("file://" + work)};
    out["windowsSandboxLevel"] = "disabled";
    out["windowsSandboxProxySettingsMode"] = "reconcile";
    out["useLegacyLandlock"] = false;
    return out;
}

std::vector<Intent> intents(const std::string& work)
{
    const json::Array base{special("root", "read"), special("project_roots", "write")};
    auto denied = base;
    denied.emplace_back(at(work + "/secret", "deny"));
    auto pattern = base;
    pattern.emplace_back(deny_pattern(work + "/**/*.env"));
    return {{"workspace-write", base},
            {"narrow reads", {special("minimal", "read"), special("project_roots", "write")}},
            {"deny path", std::move(denied)},
            {"deny glob", std::move(pattern)}};
}

json::Object command(const std::string& work, json::Value sandbox)
{
    json::Object out;
    out["argv"] = json::Array{"/bin/echo", "ready"};
    out["cwd"] = "file://" + work;
    out["env"] = json::Object{{"PATH", "/usr/bin:/bin"}};
    out["tty"] = false;
    out["sandbox"] = std::move(sandbox);
    return out;
}

/// One side of the comparison.
struct Side {
    std::string who;
    std::shared_ptr<CodexServer> server;
};

void add_file_cases(std::vector<Case>& cases, const Side& side, const Intent& policy, const std::string& work)
{
    const auto sandbox = intent(policy.entries, work);
    const auto timed = [server = side.server](const char* method, json::Object params) {
        return [server, method, params]() -> Result<double> {
            auto copy = params;
            const Stopwatch watch;
            BERTH_TRY([[maybe_unused]] const auto said, server->call(method, std::move(copy)));
            return watch.nanoseconds();
        };
    };
    json::Object read;
    read["path"] = "file://" + work + "/file";
    read["sandbox"] = sandbox;
    json::Object write = read;
    write["dataBase64"] = base64_encode(std::string(kSize, 'w'));
    const unsigned every = side.who == "codex" ? 10 : 1;
    cases.push_back({.name = fmt::format("{}: fs/readFile, {}", side.who, policy.name),
                     .run = timed("fs/readFile", std::move(read)),
                     .every = every});
    cases.push_back({.name = fmt::format("{}: fs/writeFile, {}", side.who, policy.name),
                     .run = timed("fs/writeFile", std::move(write)),
                     .every = every});
}

void add_start_cases(std::vector<Case>& cases, const Side& side, const std::string& work)
{
    const auto sandboxed = intent(intents(work).front().entries, work);
    const auto start = [&](const char* name, json::Value sandbox) {
        const auto params = command(work, std::move(sandbox));
        cases.push_back({.name = fmt::format("{}: process/start, {}", side.who, name),
                         .run = [server = side.server, params] { return server->first_output(params); },
                         .every = side.who == "codex" ? 5u : 1u});
    };
    start("workspace-write", sandboxed);
    start("without an intent", nullptr); // ours confines it, the real one runs it as it is
}

Result<double> warm(Context& context, local::Sandbox& sandbox)
{
    const auto exec = exec_of({"/bin/echo", "ready"});
    BERTH_CHECK(sandbox.make_ahead(1));
    const Stopwatch watch;
    BERTH_TRY(const auto told, exec_and_read(sandbox, exec));
    const double taken = watch.nanoseconds();
    discard(context, sandbox, exec.id);
    if (told.output != "ready\n") return fail(Code::Internal, "it printed {} bytes", told.output.size());
    return taken;
}

/// The real program: BERTH_BENCH_CODEX, or `codex` where programs are.
std::string real_codex()
{
    const char* named = std::getenv("BERTH_BENCH_CODEX"); // NOLINT(concurrency-mt-unsafe): one thread
    return named != nullptr ? std::string(named) : find_program("codex");
}

/// Fast and wrong would be easy: what was written is there, what is denied is not told.
void check_answers(CodexServer& server, const std::vector<Intent>& policies, const std::string& work,
                   Table& table)
{
    const auto text = read_file_at(AT_FDCWD, work + "/file");
    if (!text || *text != std::string(kSize, 'w')) table.problems.emplace_back("fs/writeFile did not write");
    for (const auto& policy : policies) {
        json::Object read;
        read["path"] = "file://" + work + "/secret/key";
        read["sandbox"] = intent(policy.entries, work);
        const bool denied = std::string_view(policy.name) == "deny path";
        if (server.call("fs/readFile", std::move(read)).has_value() == denied)
            table.problems.push_back(
                fmt::format("fs/readFile under {} {} a file", policy.name, denied ? "told" : "refused"));
    }
}

void add_claims(Table& table, bool peer, const std::vector<Intent>& policies)
{
    table.claims = {{.subject = kInside, .reference = kBoth, .bar = Bar{.limit = 1.5}},
                    {.subject = "berth: process/start, without an intent", .reference = kBoth}};
    if (!peer) return;
    table.claims.push_back({.subject = "berth: process/start, workspace-write",
                            .reference = "codex: process/start, workspace-write",
                            .bar = Bar{.limit = 0.3}});
    for (const auto& policy : policies)
        for (const char* method : {"fs/readFile", "fs/writeFile"}) {
            // Reads of everything need no helper there.
            const bool helper = std::string_view(method) == "fs/writeFile" ||
                                std::string_view(policy.name) != "workspace-write";
            table.claims.push_back({.subject = fmt::format("berth: {}, {}", method, policy.name),
                                    .reference = fmt::format("codex: {}, {}", method, policy.name),
                                    .relation = Relation::Lead,
                                    .bar = Bar{.limit = helper ? 100.0 : 1.0}});
        }
}

} // namespace

Result<std::vector<Table>> bench_codex(Context& context)
{
    Table table{.name = "codex"};
    BERTH_TRY(const auto data, OwnData::make(context, "codex"));
    // Not below the state directory: nothing there is ever shown to a command.
    std::string work = "/var/tmp/berth-bench-XXXXXX";
    if (::mkdtemp(work.data()) == nullptr) return fail_errno("making a workspace");
    const ScopeExit remove([&] {
        for (const char* name : {"/file", "/secret/key"}) ::unlink((work + name).c_str());
        ::rmdir((work + "/secret").c_str());
        ::rmdir(work.c_str());
    });
    ::mkdir((work + "/secret").c_str(), 0755);
    BERTH_CHECK(replace_file_at(AT_FDCWD, work + "/file", std::string(kSize, 'r')));
    BERTH_CHECK(replace_file_at(AT_FDCWD, work + "/secret/key", "secret"));

    BERTH_TRY(const auto program, own_program());
    BERTH_TRY(auto ours,
              CodexServer::start({program, "exec-server", "--listen", "ws://127.0.0.1:0", "--data",
                                  data.path() + "/server", "--root", work, "--unsandboxed", "confine"},
                                 data.path()));
    std::vector<Side> sides{{.who = "berth", .server = std::move(ours)}};
    BERTH_TRY(const std::shared_ptr<CodexServer> inside,
              CodexServer::start({program, "exec-server", "--listen", "ws://127.0.0.1:0", "--data",
                                  data.path() + "/inside", "--backend", "local"},
                                 data.path()));
    if (context.options().peers) {
        if (const auto codex = real_codex(); codex.empty()) {
            table.skipped.push_back({.name = "codex",
                                     .reason = "there is no codex here",
                                     .remedy = "npm install @openai/codex, and BERTH_BENCH_CODEX=PATH"});
        } else {
            auto real =
                CodexServer::start({codex, "exec-server", "--listen", "ws://127.0.0.1:0"}, data.path());
            if (real)
                sides.push_back({.who = "codex", .server = *std::move(real)});
            else
                table.skipped.push_back({.name = "codex", .reason = real.error().line(), .remedy = {}});
        }
    }
    const auto policies = intents(work);
    BERTH_TRY(const auto kept, make_kept(context, context.spec(), {}));
    std::vector<Case> cases;
    const auto trivial = [server = sides.front().server]() -> Result<double> {
        const Stopwatch watch;
        BERTH_TRY([[maybe_unused]] const auto said, server->call("environment/status", {}));
        return watch.nanoseconds();
    };
    cases.push_back({.name = kWarm, .run = [&] { return warm(context, *kept); }});
    cases.push_back({.name = kRound, .run = trivial});
    cases.push_back({.name = kBoth, .run = [&]() -> Result<double> {
                         BERTH_TRY(const auto exec, warm(context, *kept));
                         BERTH_TRY(const auto round, trivial());
                         return exec + round;
                     }});
    cases.push_back(
        {.name = kInside, .run = [inside] { return inside->first_output(command("/home/user", nullptr)); }});
    for (const auto& side : sides) {
        add_start_cases(cases, side, work);
        for (const auto& policy : policies) add_file_cases(cases, side, policy, work);
    }
    add_claims(table, sides.size() > 1, policies);
    measure(context, table, std::move(cases), {.rounds = std::min(context.options().rounds, 100u)});
    check_answers(*sides.front().server, policies, work, table);
    return std::vector<Table>{std::move(table)};
}

} // namespace berth::bench
