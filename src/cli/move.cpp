#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/exec_server_url.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct MoveOptions {
    Common common;
    std::string ref;
    std::string to;
    std::string url;
    std::string kind;
    std::optional<std::string> root;
    bool quiet = false;
};

void say_moved(const MoveAnswer& answer)
{
    say(fmt::format("moved from {} to {} as {} in {} ({})", answer.from, answer.record.backend, answer.kind,
                    brief(answer.elapsed), brief(Bytes{answer.bytes})));
    for (const auto& one : answer.carried) say("came along: " + printable(one, 600));
    for (const auto& one : answer.left) say("left behind: " + printable(one, 600));
    for (const auto& note : answer.notes) say(printable(note, 600));
}

Result<int> move(const MoveOptions& o)
{
    MoveWish wish{.backend = o.to, .kind = o.kind, .root = std::nullopt};
    BERTH_CHECK(use_url(o.url, o.to, "--to"));
    if (o.root) {
        BERTH_TRY(wish.root, parse_template(*o.root));
    }
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto answer, berth->run(berth->lifecycle().move(o.ref, wish)));
    if (o.common.json) {
        json::Object document;
        document["sandbox"] = record_json(answer.record);
        document["from"] = answer.from;
        document["to"] = answer.record.backend;
        document["kind"] = answer.kind;
        document["bytes"] = answer.bytes;
        document["elapsed_seconds"] = std::chrono::duration<double>(answer.elapsed).count();
        document["carried"] = text_array(answer.carried);
        document["left"] = text_array(answer.left);
        document["notes"] = text_array(answer.notes);
        return print_document(document);
    }
    if (!o.quiet) say_moved(answer);
    return print(answer.record.id() + "\n");
}

} // namespace

int move_verb(int argc, char** argv)
{
    CLI::App app(
        "Move a sandbox to another backend: the same id, its next generation. The new instance stands\n"
        "before the old one goes; what came along and what did not is told, here and in the ledger.\n\n"
        "Example:\n  berth move demo --to docker --template image:debian:12\n",
        "berth move");
    MoveOptions o;
    app.add_option("sandbox", o.ref, "An id, a prefix of one, a name or a key")->type_name("REF")->required();
    app.add_option("--to", o.to, "The backend")->type_name("NAME")->required();
    add_url_option(app, o.url);
    app.add_option("--kind", o.kind, "The kind of snapshot it travels as (default: the best that both know)")
        ->type_name("KIND");
    app.add_option("--template", o.root, "What it stands on there, where only its work comes along")
        ->type_name("TEMPLATE");
    app.add_flag("-q,--quiet", o.quiet, "Print its id and nothing else");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = move(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
