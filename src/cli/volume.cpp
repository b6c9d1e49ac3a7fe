#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/volume_use.hpp"

namespace berth::cli {

namespace {

struct VolumeOptions {
    Common common;
    std::string name;
    std::optional<std::string> key;
    bool dry_run = false;
};

json::Object volume_json(const volumes::Use& used)
{
    json::Object out;
    out["name"] = used.volume.name;
    out["key"] = used.volume.key;
    out["used_by"] = text_array(used.by);
    return out;
}

Result<int> list(const VolumeOptions& o)
{
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto all, volumes::uses(berth->store(), berth->data()));
    if (o.common.json) {
        json::Array list;
        for (const auto& one : all) list.emplace_back(volume_json(one));
        json::Object document;
        document["volumes"] = std::move(list);
        return print_document(document);
    }
    Table table({"NAME", "KEY", "USED-BY"});
    for (const auto& one : all)
        table.add({cell(one.volume.name), cell(one.volume.key),
                   cell(fmt::format("{}", fmt::join(one.by, ",")), 600)});
    return print(table.text());
}

Result<volumes::Known> choose(Berth& berth, const VolumeOptions& o)
{
    BERTH_TRY(auto all, volumes::list(berth.lifecycle().volume_directory()));
    std::erase_if(all, [&](const auto& one) { return one.name != o.name || (o.key && one.key != *o.key); });
    if (all.empty())
        return fail(Code::NotFound, "no volume '{}'{}: berth volume ls lists them", printable(o.name, 60),
                    o.key ? fmt::format(" of key '{}'", printable(*o.key, 60)) : "");
    if (all.size() > 1)
        return fail(Code::Conflict, "{} keys have a volume '{}': say whose with --key, like --key '{}'",
                    all.size(), printable(o.name, 60), printable(all.front().key, 60));
    return all.front();
}

Result<int> remove(const VolumeOptions& o)
{
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto volume, choose(*berth, o));
    BERTH_CHECK(volumes::remove_unused(berth->store(), berth->data(), volume, o.dry_run));
    if (o.common.json) {
        auto document = volume_json({.volume = volume, .by = {}});
        document["dry_run"] = o.dry_run;
        return print_document(document);
    }
    say(fmt::format("{} volume '{}' of '{}'", o.dry_run ? "would remove" : "removed",
                    printable(volume.name, 60), printable(volume.key, 60)));
    return 0;
}

} // namespace

int volume_verb(int argc, char** argv)
{
    CLI::App app("List and remove volumes: directories of a key that outlive its sandboxes (berth create "
                 "--volume).\n\n"
                 "Example:\n  berth volume ls\n  berth volume rm cache --key demo\n",
                 "berth volume");
    VolumeOptions o;
    auto* ls = app.add_subcommand("ls", "List them, and who uses them");
    auto* rm = app.add_subcommand("rm", "Remove one with all its files; not while a sandbox has it");
    rm->add_option("name", o.name, "Its name")->type_name("NAME")->required();
    rm->add_option("--key", o.key, "The key it belongs to (a sandbox without a key: its id)")
        ->type_name("KEY");
    rm->add_flag("--dry-run", o.dry_run, "Say what would be removed, and remove nothing");
    for (auto* verb : {ls, rm}) add_common(*verb, o.common);
    app.require_subcommand(1);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = *ls ? list(o) : remove(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
