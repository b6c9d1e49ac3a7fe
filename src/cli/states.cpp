// The verbs that change the state of sandboxes and keep them: start, stop, pause, resume.

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

using namespace std::chrono_literals;

struct Refs {
    Common common;
    std::vector<std::string> refs;
    bool quiet = false;
};

void add_refs(CLI::App& app, Refs& o)
{
    app.add_option("sandbox", o.refs, "Ids, prefixes of ids, names or keys")->type_name("REF...")->required();
    add_common(app, o.common);
}

/// Opens the library once and does the same to each.
int work_on_all(const Refs& o, const std::function<Result<json::Object>(Berth&, const std::string&)>& work,
                Room room = Room::Ordinary)
{
    const auto berth = open_berth(o.common, room);
    if (!berth) return report(berth.error(), o.common);
    return for_each_ref(o.common, o.refs, [&](const std::string& ref) { return work(**berth, ref); });
}

} // namespace

int start_verb(int argc, char** argv)
{
    CLI::App app("Make sandboxes usable: a stopped one is started, a paused one resumed, one whose instance\n"
                 "is gone restored from its newest snapshot. Says which.\n\n"
                 "Example:\n  berth start demo\n",
                 "berth start");
    Refs o;
    add_refs(app, o);
    app.add_flag("-q,--quiet", o.quiet, "Print ids and nothing else");
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    return work_on_all(o, [&](Berth& berth, const std::string& ref) -> Result<json::Object> {
        BERTH_TRY(const auto acquired, berth.run(berth.lifecycle().use(ref)));
        if (!o.quiet && !o.common.json) say_outcome(acquired);
        return acquired_json(acquired);
    });
}

int stop_verb(int argc, char** argv)
{
    CLI::App app("End every process of sandboxes; their files stay. TERM first, KILL after the grace.\n\n"
                 "Example:\n  berth stop demo\n  berth stop --grace 30s demo other\n",
                 "berth stop");
    Refs o;
    std::string grace = "5s";
    add_refs(app, o);
    app.add_option("--grace", grace, "Time between TERM and KILL (default 5s)")->type_name("TIME");
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto time = parse_duration(grace);
    if (!time) return report(time.error(), o.common);
    const auto patience = std::chrono::ceil<std::chrono::milliseconds>(*time);
    return work_on_all(
        o,
        [&](Berth& berth, const std::string& ref) -> Result<json::Object> {
            BERTH_TRY(const auto record, berth.run(berth.lifecycle().stop(ref, patience)));
            return record_json(record);
        },
        Room::Frees);
}

int pause_verb(int argc, char** argv)
{
    CLI::App app("Freeze sandboxes with all their memory: nothing in them runs until they are resumed.\n\n"
                 "Example:\n  berth pause demo\n  berth resume demo\n",
                 "berth pause");
    Refs o;
    add_refs(app, o);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    return work_on_all(o, [](Berth& berth, const std::string& ref) -> Result<json::Object> {
        BERTH_TRY(const auto record, berth.run(berth.lifecycle().pause(ref)));
        return record_json(record);
    });
}

int resume_verb(int argc, char** argv)
{
    CLI::App app("Let paused sandboxes go on where they were.\n\nExample:\n  berth resume demo\n",
                 "berth resume");
    Refs o;
    add_refs(app, o);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    return work_on_all(o, [](Berth& berth, const std::string& ref) -> Result<json::Object> {
        BERTH_TRY(const auto record, berth.run(berth.lifecycle().resume(ref)));
        return record_json(record);
    });
}

} // namespace berth::cli
