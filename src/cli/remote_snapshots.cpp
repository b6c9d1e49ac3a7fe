#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/remote.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"

namespace berth::cli::remote {

namespace {

using namespace std::chrono_literals;

constexpr auto kSilence = 60s; // a stream tells every 15 s that it lives

/// "/v1/snapshots/snap_…" of an id or the beginning of one.
Result<std::string> snapshot_path(Server& server, const std::string& ref)
{
    BERTH_TRY(const auto listed, server.call("GET", "/v1/snapshots"));
    std::vector<std::string> found;
    if (const auto* const all = listed.if_contains("snapshots"); all != nullptr && all->is_array())
        for (const auto& one : all->get_array()) {
            const auto id = one.is_object() ? text_of(one.get_object(), "id") : std::string{};
            if (id == ref) return "/v1/snapshots/" + http_client::url_encode(id);
            if (ref.size() >= 3 && (id.starts_with(ref) || id.starts_with("snap_" + ref)))
                found.push_back(id);
        }
    if (found.empty())
        return fail(Code::NotFound, "the server has no snapshot '{}' of ours", printable(ref, 60));
    if (found.size() > 1)
        return fail(Code::Conflict, "'{}' stands for {} snapshots there", printable(ref, 60), found.size());
    return "/v1/snapshots/" + http_client::url_encode(found.front());
}

Result<int> list(Server& server, const Common& common, const std::string& ref, bool quiet)
{
    std::string sandbox;
    if (!ref.empty()) {
        BERTH_TRY(sandbox, server.path_of(ref));
        sandbox.erase(0, sandbox.rfind('/') + 1);
    }
    BERTH_TRY(auto document, server.call("GET", "/v1/snapshots"));
    auto* const all = document.if_contains("snapshots");
    if (all == nullptr || !all->is_array()) return fail(Code::Unavailable, "the server lists no snapshots");
    json::Array kept;
    for (auto& one : all->get_array())
        if (one.is_object() && (sandbox.empty() || text_of(one.get_object(), "sandbox") == sandbox))
            kept.push_back(std::move(one));
    if (common.json) {
        document["snapshots"] = std::move(kept);
        return print_document(document);
    }
    Table table({"ID", "SANDBOX", "KIND", "CREATED", "NOTE"});
    std::string ids;
    for (const auto& value : kept) {
        const auto& one = value.get_object();
        ids += cell(text_of(one, "id")) + "\n";
        table.add({cell(text_of(one, "id")), cell(text_of(one, "sandbox")), cell(text_of(one, "kind")),
                   cell(text_of(one, "created")), cell(text_of(one, "note"))});
    }
    return print(quiet ? ids : table.text());
}

std::string event_line(const json::Object& event)
{
    std::string line =
        fmt::format("{} {} {}", text_of(event, "time"), text_of(event, "sandbox"), text_of(event, "type"));
    if (const auto* const data = event.if_contains("data"); data != nullptr && data->is_object())
        for (const auto& [name, value] : data->get_object()) {
            if (name == "sandbox_id" || value.is_null()) continue;
            const auto* const text = value.if_string();
            line += fmt::format(" {}={}", printable(name, 60),
                                printable(text != nullptr ? std::string_view(*text) : json::dump(value)));
        }
    return printable(line, 2000) + "\n";
}

struct EventsWish {
    Common common;
    std::string ref, type;
    std::uint64_t after = 0;
    bool follow = false;
};

Result<int> tell_events(Server& server, const EventsWish& o)
{
    std::string query;
    if (!o.ref.empty()) {
        BERTH_TRY(const auto sandbox, server.path_of(o.ref));
        query += "&sandbox=" + sandbox.substr(sandbox.rfind('/') + 1);
    }
    if (!o.type.empty()) query += "&type=" + http_client::url_encode(o.type);
    std::uint64_t after = o.after;
    const auto show = [&](const json::Object& event) -> Status {
        if (const auto* const number = event.if_contains("sequence"); number != nullptr && number->is_int64())
            after = static_cast<std::uint64_t>(number->get_int64());
        const std::string line = o.common.json ? json::dump(event) + "\n" : event_line(event);
        if (print(line) != 0) return fail(Code::Unavailable, "nobody reads our output");
        return {};
    };
    for (bool more = true; more && !o.follow;) {
        BERTH_TRY(const auto page, server.call("GET", fmt::format("/v1/events?after={}{}", after, query)));
        if (const auto* const all = page.if_contains("events"); all != nullptr && all->is_array())
            for (const auto& one : all->get_array())
                if (one.is_object()) BERTH_CHECK(show(one.get_object()));
        const auto* const next = page.if_contains("after");
        if (next != nullptr && next->is_int64()) after = static_cast<std::uint64_t>(next->get_int64());
        const auto* const rest = page.if_contains("more");
        more = rest != nullptr && rest->is_bool() && rest->get_bool();
    }
    if (!o.follow) return 0;
    // A stream that breaks off is taken up again behind the last event.
    Status shown;
    for (;;) {
        const auto before = after;
        EventReader reader([&](const json::Object& event) { return shown = show(event); });
        const auto read = server.stream(
            fmt::format("/v1/events?follow=true&after={}{}", after, query),
            [&](std::string_view bytes) { return reader.feed(bytes); }, kSilence);
        if (!shown) return 0;
        if (!read && after == before) return std::unexpected(read.error());
    }
}

} // namespace

int snapshots_verb(Server& server, int argc, char** argv)
{
    CLI::App app("List our snapshots on the server, the newest first; or remove some.\n\n"
                 "Example:\n  berth snapshots mybox --server http://127.0.0.1:7600\n",
                 "berth snapshots");
    Common common;
    std::string ref;
    std::vector<std::string> refs;
    bool quiet = false;
    app.add_option("sandbox", ref, "Only of this one")->type_name("REF");
    app.add_flag("-q,--quiet", quiet, "Only ids");
    add_common(app, common);
    auto* const rm = app.add_subcommand("rm", "Remove snapshots; sandboxes made from them stay");
    rm->add_option("snapshot", refs, "Ids, or prefixes of ids")->type_name("SNAP...")->required();
    add_common(*rm, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    if (*rm)
        return for_each_ref(
            common, refs,
            [&](const std::string& one) -> Result<json::Object> {
                BERTH_TRY(const auto path, snapshot_path(server, one));
                BERTH_TRY(auto told, server.call("GET", path));
                BERTH_CHECK(server.call("DELETE", path));
                return told;
            },
            "snapshots");
    const auto code = list(server, common, ref, quiet);
    return code ? *code : report(code.error(), common);
}

int restore_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Make a new sandbox on the server from a snapshot there.\n\n"
                 "Example:\n  berth restore snap_01jd7f3 --server http://127.0.0.1:7600\n",
                 "berth restore");
    Common common;
    std::string ref;
    app.add_option("snapshot", ref, "An id, or a prefix of one")->type_name("SNAP")->required();
    add_common(app, common);
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto make = [&]() -> Result<int> {
        BERTH_TRY(const auto path, snapshot_path(server, ref));
        BERTH_TRY(const auto made, server.call("POST", path + "/restore"));
        if (common.json) return print_document(made);
        say_outcome(made, text_of(made, "id"));
        return print(text_of(made, "id") + "\n");
    };
    const auto code = make();
    return code ? *code : report(code.error(), common);
}

int events_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Tell what happened to our sandboxes on the server.\n\n"
                 "Example:\n  berth events mybox --follow --server http://127.0.0.1:7600\n",
                 "berth events");
    EventsWish o;
    app.add_option("sandbox", o.ref, "Only of this one")->type_name("REF");
    app.add_flag("-f,--follow", o.follow, "Go on with those to come, until interrupted");
    app.add_option("--after", o.after, "Begin behind this sequence number")->type_name("N");
    app.add_option("--type", o.type, "Only of this type, like sandbox_started")->type_name("TYPE");
    add_common(app, o.common);
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = tell_events(server, o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli::remote
