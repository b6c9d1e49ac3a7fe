#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/supervised.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct ForkOptions {
    Common common;
    std::string ref;
    std::string count = "1";
    std::optional<std::string> name;
    bool quiet = false;
};

void say_forked(const ForkAnswer& answer)
{
    const std::size_t count = answer.forks.size();
    say(fmt::format("{} {} in {}{}", count, count == 1 ? "fork" : "forks", brief(answer.elapsed),
                    answer.live_copy
                        ? fmt::format(", {} copied while its processes live", brief(Bytes{answer.bytes}))
                        : ""));
    for (const auto& note : answer.notes) say(printable(note, 600));
}

Result<int> fork(const ForkOptions& o)
{
    BERTH_TRY(const auto count, parse_int(o.count, 1, 1000, "number of forks"));
    if (o.name) BERTH_CHECK(check_sandbox_name(*o.name));
    BERTH_TRY(const auto berth, open_berth(o.common));
    const ForkWish wish{.count = static_cast<std::size_t>(count), .name = o.name.value_or("")};
    BERTH_TRY(const auto answer, berth->run(berth->lifecycle().fork(o.ref, wish)));
    if (o.common.json) {
        json::Array forks;
        for (const auto& record : answer.forks) forks.emplace_back(record_json(record));
        json::Object document;
        document["sandboxes"] = std::move(forks);
        document["live_copy"] = answer.live_copy;
        document["bytes"] = answer.bytes;
        document["elapsed_seconds"] = std::chrono::duration<double>(answer.elapsed).count();
        document["notes"] = text_array(answer.notes);
        return print_document(document);
    }
    if (!o.quiet) say_forked(answer);
    std::string ids;
    for (const auto& record : answer.forks) ids += record.id() + "\n";
    return print(ids);
}

/// Those that stood when the rest was given up.
void say_standing(const ForkOptions& o, WallTime since)
{
    const auto berth = open_berth(o.common, Room::Reads);
    if (!berth) return;
    const auto source = (*berth)->run((*berth)->lifecycle().find(o.ref));
    if (!source) return;
    std::string ids;
    for (RecordQuery query;;) {
        const auto page = (*berth)->store().list(query);
        if (!page) return;
        for (const auto& one : *page) {
            const auto label = one.spec.labels.find(std::string(kForkLabel));
            if (label != one.spec.labels.end() && label->second == source->id() && one.created >= since)
                ids += " " + one.id();
        }
        if (page->size() < query.limit) break;
        query.after = page->back().id();
    }
    if (!ids.empty()) say(fmt::format("forks that were made stay: berth rm{}", ids));
}

} // namespace

int fork_verb(int argc, char** argv)
{
    CLI::App app(
        "Make sandboxes that start with the files of another: ids, host names and machine ids of their own,\n"
        "none of its processes. Prints their ids, one a line.\n\n"
        "Example:\n  berth fork demo -n 3 --name try\n",
        "berth fork");
    ForkOptions o;
    app.add_option("sandbox", o.ref, "An id, a prefix of one, a name or a key")->type_name("REF")->required();
    app.add_option("-n,--count", o.count, "How many (default 1)")->type_name("N");
    app.add_option("--name", o.name, "Their name; with several NAME-1, NAME-2, ...")->type_name("NAME");
    app.add_flag("-q,--quiet", o.quiet, "Print ids and nothing else");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto work = [&] {
        const auto code = fork(o);
        return code ? *code : report(code.error(), o.common);
    };
    const auto begun = system_clock().now();
    return supervised(work, [&] {
        clear_up(o.common, o.ref);
        say_standing(o, begun);
    });
}

} // namespace berth::cli
