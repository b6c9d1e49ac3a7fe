#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/remote.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"

namespace berth::cli::remote {

namespace {

/// A verb on each of several sandboxes: one request, and the document that tells of it.
struct Each {
    const char* name;
    const char* help;
    const char* method;
    const char* action; ///< behind the sandbox's path
};

int each_verb(Server& server, int argc, char** argv, const Each& what)
{
    CLI::App app(
        fmt::format("{}, on the server.\n\nExample:\n  berth {} mybox --server http://127.0.0.1:7600\n",
                    what.help, what.name),
        fmt::format("berth {}", what.name));
    Common common;
    std::vector<std::string> refs;
    app.add_option("sandbox", refs, "The sandboxes")->type_name("REF...")->required();
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    return for_each_ref(common, refs, [&](const std::string& ref) -> Result<json::Object> {
        BERTH_TRY(const auto path, server.path_of(ref));
        BERTH_TRY(auto told, server.call(what.method, path + what.action));
        if (!common.json && told.contains("outcome")) say_outcome(told, text_of(told, "id"));
        return told;
    });
}

struct CreateOptions {
    Common common;
    std::string key, user, workdir, policy, idle, on_idle, lifetime;
    std::vector<std::string> env, labels;
    bool quiet = false;
};

Result<std::string> create_body(const CreateOptions& o)
{
    json::Object body;
    const auto put = [&](const char* name, const std::string& value) {
        if (!value.empty()) body[name] = value;
    };
    put("key", o.key);
    put("user", o.user);
    put("workdir", o.workdir);
    put("policy", o.policy);
    put("on_idle", o.on_idle);
    for (const auto& [option, name, value] : {std::tuple{"--idle", "idle_seconds", &o.idle},
                                              std::tuple{"--lifetime", "lifetime_seconds", &o.lifetime}}) {
        if (value->empty()) continue;
        BERTH_TRY(const auto seconds, parse_seconds(option, *value));
        body[name] = seconds.count();
    }
    const auto texts = [](const std::map<std::string, std::string>& from) {
        json::Object out;
        for (const auto& [name, value] : from) out[name] = value;
        return out;
    };
    BERTH_TRY(const auto env, parse_env(o.env));
    if (!env.empty()) body["env"] = texts(env);
    std::map<std::string, std::string> labels;
    for (const auto& text : o.labels) {
        const auto equals = text.find('=');
        if (equals == std::string::npos || equals == 0)
            return fail(Code::Invalid, "label '{}' is not KEY=VALUE", printable(text, 60));
        labels[text.substr(0, equals)] = text.substr(equals + 1);
    }
    if (!labels.empty()) body["labels"] = texts(labels);
    return json::dump(body);
}

Result<int> create(Server& server, const CreateOptions& o)
{
    BERTH_TRY(auto body, create_body(o));
    BERTH_TRY(const auto made, server.call("POST", "/v1/sandboxes", std::move(body)));
    if (o.common.json) return print_document(made);
    if (!o.quiet) say_outcome(made, text_of(made, "id"));
    return print(text_of(made, "id") + "\n");
}

Result<int> list(Server& server, const Common& common, bool quiet)
{
    BERTH_TRY(const auto document, server.call("GET", "/v1/sandboxes"));
    if (common.json) return print_document(document);
    Table table({"ID", "NAME", "KEY", "STATE", "BACKEND", "CREATED"});
    std::string ids;
    if (const auto* const all = document.if_contains("sandboxes"); all != nullptr && all->is_array())
        for (const auto& value : all->get_array()) {
            if (!value.is_object()) continue;
            const auto& one = value.get_object();
            ids += cell(text_of(one, "id")) + "\n";
            table.add({cell(text_of(one, "id")), cell(text_of(one, "name")), cell(text_of(one, "key")),
                       cell(text_of(one, "state")), cell(text_of(one, "backend")),
                       cell(text_of(one, "created"))});
        }
    return print(quiet ? ids : table.text());
}

} // namespace

int start_verb(Server& server, int argc, char** argv)
{
    return each_verb(server, argc, argv, {"start", "Make sandboxes usable again", "POST", "/start"});
}

int stop_verb(Server& server, int argc, char** argv)
{
    return each_verb(server, argc, argv,
                     {"stop", "End the processes of sandboxes, keep their files", "POST", "/stop"});
}

int pause_verb(Server& server, int argc, char** argv)
{
    return each_verb(server, argc, argv, {"pause", "Freeze sandboxes with their memory", "POST", "/pause"});
}

int resume_verb(Server& server, int argc, char** argv)
{
    return each_verb(server, argc, argv, {"resume", "Let paused sandboxes go on", "POST", "/resume"});
}

int rm_verb(Server& server, int argc, char** argv)
{
    return each_verb(server, argc, argv, {"rm", "Destroy sandboxes", "DELETE", ""});
}

int create_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Make a sandbox on the server, or find the one of a key there.\n\n"
                 "Example:\n  berth create --key demo --server http://127.0.0.1:7600\n",
                 "berth create");
    CreateOptions o;
    app.add_option("--key", o.key, "Finds the sandbox again")->type_name("KEY");
    app.add_option("-e,--env", o.env, "Set NAME=VALUE, or pass NAME on")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("-w,--workdir", o.workdir, "Working directory inside")->type_name("DIR");
    app.add_option("-u,--user", o.user, "User inside")->type_name("USER");
    app.add_option("--label", o.labels, "KEY=VALUE kept with the sandbox")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    app.add_option("--policy", o.policy, "A preset")->type_name("NAME");
    app.add_option("--idle", o.idle, "How long unused is idle")->type_name("TIME");
    app.add_option("--on-idle", o.on_idle, "What then: stop, snapshot-then-stop, destroy")
        ->type_name("ACTION");
    app.add_option("--lifetime", o.lifetime, "Destroy it after this time")->type_name("TIME");
    app.add_flag("-q,--quiet", o.quiet, "Print the id and nothing else");
    add_common(app, o.common);
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = create(server, o);
    return code ? *code : report(code.error(), o.common);
}

int ls_verb(Server& server, int argc, char** argv)
{
    CLI::App app("List our sandboxes on the server.\n\nExample:\n  berth ls --server http://127.0.0.1:7600\n",
                 "berth ls");
    Common common;
    bool quiet = false;
    app.add_flag("-q,--quiet", quiet, "Only ids");
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto code = list(server, common, quiet);
    return code ? *code : report(code.error(), common);
}

int inspect_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Tell everything about a sandbox on the server.\n\n"
                 "Example:\n  berth inspect mybox --server http://127.0.0.1:7600\n",
                 "berth inspect");
    Common common;
    std::string ref;
    app.add_option("sandbox", ref, "The sandbox")->type_name("REF")->required();
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto look = [&]() -> Result<json::Object> {
        BERTH_TRY(const auto path, server.path_of(ref));
        return server.call("GET", path);
    };
    const auto found = look();
    if (!found) return report(found.error(), common);
    return common.json ? print_document(*found) : print(json::dump_pretty(json::Value(*found)) + "\n");
}

int snapshot_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Keep the files of a sandbox on the server as they are now.\n\n"
                 "Example:\n  berth snapshot mybox --server http://127.0.0.1:7600\n",
                 "berth snapshot");
    Common common;
    std::string ref, note;
    app.add_option("sandbox", ref, "The sandbox")->type_name("REF")->required();
    app.add_option("--note", note, "A word about it")->type_name("TEXT");
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto take = [&]() -> Result<int> {
        BERTH_TRY(const auto path, server.path_of(ref));
        json::Object body;
        if (!note.empty()) body["note"] = note;
        BERTH_TRY(const auto taken, server.call("POST", path + "/snapshots", json::dump(body)));
        return common.json ? print_document(taken) : print(text_of(taken, "id") + "\n");
    };
    const auto code = take();
    return code ? *code : report(code.error(), common);
}

int fork_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Make sandboxes on the server from the files of another.\n\n"
                 "Example:\n  berth fork mybox -n 3 --server http://127.0.0.1:7600\n",
                 "berth fork");
    Common common;
    std::string ref;
    std::size_t count = 1;
    app.add_option("sandbox", ref, "The sandbox")->type_name("REF")->required();
    app.add_option("-n,--count", count, "How many (default 1)")->type_name("N");
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto make = [&]() -> Result<int> {
        BERTH_TRY(const auto path, server.path_of(ref));
        json::Object body;
        body["count"] = count;
        BERTH_TRY(const auto made, server.call("POST", path + "/fork", json::dump(body)));
        if (common.json) return print_document(made);
        std::string ids;
        if (const auto* const all = made.if_contains("sandboxes"); all != nullptr && all->is_array())
            for (const auto& one : all->get_array())
                if (one.is_object()) ids += text_of(one.get_object(), "id") + "\n";
        return print(ids);
    };
    const auto code = make();
    return code ? *code : report(code.error(), common);
}

} // namespace berth::cli::remote
