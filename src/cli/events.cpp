#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "berth/noticing.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct EventsOptions {
    Common common;
    std::optional<std::string> ref;
    std::optional<std::string> after;
    std::string type;
    std::optional<std::string> limit;
    std::optional<std::string> tail;
    bool follow = false;
};

/// "2026-…Z      12 sbx_… sandbox_created backend=local …": the fields of the event on one line.
std::string line_of(const LedgerEvent& event)
{
    std::string line =
        fmt::format("{} {:>6} {} {}", rfc3339(event.time), event.sequence, event.sandbox, event.type);
    for (const auto& [name, value] : event.data) {
        if (name == "sandbox_id" || value.is_null()) continue;
        const auto* text = value.if_string();
        if (text != nullptr && text->empty()) continue;
        line +=
            fmt::format(" {}={}", printable(name, 60),
                        text != nullptr ? printable(std::string_view(*text)) : printable(json::dump(value)));
    }
    return line + "\n";
}

/// True when whoever read our output has gone; otherwise waits a little.
bool reader_gone(int milliseconds)
{
    pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
    return ::poll(&out, 1, milliseconds) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

/// What is asked for, in numbers.
struct Range {
    std::uint64_t after = 0;
    std::size_t limit = SIZE_MAX;
    std::optional<std::size_t> tail;
};

Result<Range> range_of(const EventsOptions& o)
{
    constexpr long long kMost = 1'000'000'000'000'000'000;
    constexpr long long kMostOfTail = 10'000; // one page of the store
    Range out;
    if (o.tail && (o.after || o.limit))
        return fail(Code::Invalid, "--tail says which to begin with and how many: leave {} out",
                    o.after ? "--after" : "--limit");
    if (o.after) {
        BERTH_TRY(const auto after, parse_int(*o.after, 0, kMost, "sequence number of --after"));
        out.after = static_cast<std::uint64_t>(after);
    }
    if (o.limit) {
        BERTH_TRY(const auto limit, parse_int(*o.limit, 1, kMost, "number of events"));
        out.limit = static_cast<std::size_t>(limit);
    }
    if (o.tail) {
        BERTH_TRY(const auto tail, parse_int(*o.tail, 0, kMostOfTail, "number of events"));
        out.tail = static_cast<std::size_t>(tail);
    }
    return out;
}

std::string text_of(const EventsOptions& o, const LedgerEvent& event)
{
    return o.common.json ? json::dump(ledger_json(event)) + "\n" : line_of(event);
}

/// The last ones of those that fit; the query goes on behind them. Of none only where that is.
Result<int> tell_last(Store& store, const EventsOptions& o, std::size_t count, LedgerQuery& query)
{
    LedgerQuery last = query;
    last.limit = std::max(count, std::size_t{1});
    last.type = o.type;
    last.newest = true;
    BERTH_TRY(const auto page, store.ledger(last));
    std::string text;
    for (const auto& event : page) {
        query.after = event.sequence;
        if (count > 0) text += text_of(o, event);
    }
    return text.empty() ? 0 : print(text);
}

/// Sequence numbers rise with every commit, so that going on after the last one seen neither misses nor
/// repeats any.
Result<int> tell(const EventsOptions& o)
{
    constexpr std::size_t kPage = 500;
    constexpr int kPause = 200;
    BERTH_TRY(const auto range, range_of(o));
    std::size_t left = range.limit;
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Reads));
    LedgerQuery query{.after = range.after, .limit = kPage};
    // Whoever follows chooses for himself: the store would look through what does not fit each time anew.
    if (!o.follow) query.type = o.type;
    if (o.ref) {
        BERTH_TRY(const auto record, berth->run(berth->lifecycle().find(*o.ref)));
        query.sandbox = record.id();
    }
    std::optional<Noticing> noticing;
    if (o.follow) noticing.emplace(berth->data());
    if (range.tail) {
        BERTH_TRY(const int failed, tell_last(berth->store(), o, *range.tail, query));
        if (failed != 0 || !o.follow) return failed;
    }
    for (;;) {
        BERTH_TRY(const auto page, berth->store().ledger(query));
        std::string text;
        for (const auto& event : page) {
            query.after = event.sequence;
            if (left == 0 || (!o.type.empty() && event.type != o.type)) continue;
            text += text_of(o, event);
            --left;
        }
        if (const int failed = text.empty() ? 0 : print(text); failed != 0) return failed;
        if (left == 0) return 0;
        if (page.size() == kPage) continue;
        if (!o.follow || reader_gone(kPause)) return 0;
    }
}

} // namespace

int events_verb(int argc, char** argv)
{
    CLI::App app(
        "Tell what happened to sandboxes, from the ledger: every event has a sequence number that only\n"
        "rises. With --json each is a line of its own. Who follows also hears at once what others do to\n"
        "containers behind berth's back.\n\n"
        "Example:\n  berth events demo --tail 20\n  berth events --follow --after 120 --json\n",
        "berth events");
    EventsOptions o;
    app.add_option("sandbox", o.ref, "Only of this one: an id, a prefix of one, a name or a key")
        ->type_name("REF");
    app.add_flag("-f,--follow", o.follow, "Go on with those to come, until interrupted");
    app.add_option("--after", o.after, "Begin behind this sequence number")->type_name("N");
    app.add_option("--type", o.type, "Only of this type, like sandbox_started")->type_name("TYPE");
    app.add_option("--limit", o.limit, "End after this many")->type_name("N");
    app.add_option("--tail", o.tail, "Begin with the last so many, 10000 at most")->type_name("N");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = tell(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
