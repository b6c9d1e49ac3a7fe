#include <CLI/CLI.hpp>

#include <cstdlib>
#include <iostream>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/local_build.hpp"
#include "cli/progress.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/template_build.hpp"
#include "cli/verbs.hpp"
#include "distribution/images.hpp"

namespace berth::cli {

namespace {

struct TemplateOptions {
    Common common;
    std::string name;
    std::string source;
    std::string username;
    bool password_stdin = false;
    bool dry_run = false;
};

json::Object image_json(const distribution::KeptImage& image)
{
    json::Object out;
    out["name"] = image.name;
    out["digest"] = "sha256:" + image.digest;
    out["bytes"] = image.bytes;
    out["created"] = rfc3339(image.created);
    out["template"] = to_string(Template{.kind = Template::Kind::Oci, .path = image.path, .tag = image.tag});
    return out;
}

/// A password is never an argument: those are everybody's to read.
Result<std::string> password(const TemplateOptions& o)
{
    if (o.username.empty()) {
        if (o.password_stdin) return fail(Code::Invalid, "--password-stdin without --username");
        return std::string{};
    }
    if (o.password_stdin) {
        std::string line;
        std::getline(std::cin, line);
        if (line.empty()) return fail(Code::Invalid, "--password-stdin: nothing came");
        return line;
    }
    const char* told = std::getenv("BERTH_REGISTRY_PASSWORD"); // NOLINT(concurrency-mt-unsafe): one thread
    if (told == nullptr || *told == '\0')
        return fail(Code::Invalid,
                    "--username without a password: set BERTH_REGISTRY_PASSWORD, or use --password-stdin");
    return std::string(told);
}

Result<int> pull(const TemplateOptions& o)
{
    BERTH_TRY(const auto path, state_path(o.common));
    BERTH_TRY(const auto images, distribution::Images::open(path));
    BERTH_CHECK(images.sweep());
    distribution::FetchWish wish;
    BERTH_TRY(wish.reference, distribution::parse_reference(o.name));
    BERTH_TRY(auto secret, password(o));
    wish.login = {.username = o.username, .password = std::move(secret)};
    wish.patience = std::chrono::hours(6);
    Result<distribution::KeptImage> got = fail(Code::Internal, "nothing was fetched");
    {
        Progress progress;
        wish.progress = [&](const std::string& what, std::uint64_t have, std::uint64_t of) {
            progress.tell(what, have, of);
        };
        got = images.pull(wish);
    }
    if (!got) return std::unexpected(std::move(got).error());
    if (o.common.json) return print_document(image_json(*got));
    say(fmt::format("pulled {} (sha256:{}, {})", got->name, got->digest.substr(0, 12),
                    brief(Bytes{got->bytes})));
    return print("image:" + got->name + "\n");
}

Result<int> import(const TemplateOptions& o)
{
    BERTH_TRY(const auto root, parse_template(o.source));
    if (root.kind != Template::Kind::Oci && root.kind != Template::Kind::Tar)
        return fail(Code::Invalid, "'{}' is no image: oci:PATH[:TAG] or docker-archive:PATH[:TAG] is",
                    printable(o.source, 100));
    BERTH_TRY(const auto reference, distribution::parse_reference(o.name));
    BERTH_TRY(const auto path, state_path(o.common));
    BERTH_TRY(const auto images, distribution::Images::open(path));
    BERTH_CHECK(images.sweep());
    BERTH_TRY(const auto got, images.import(reference, root.path, root.tag));
    if (o.common.json) return print_document(image_json(got));
    say(fmt::format("imported {} ({})", got.name, brief(Bytes{got.bytes})));
    return print("image:" + got.name + "\n");
}

Result<int> list(const TemplateOptions& o)
{
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Reads));
    BERTH_TRY(const auto images, distribution::Images::open(berth->data()));
    BERTH_TRY(const auto all, images.list());
    BERTH_CHECK(berth->run(berth->lifecycle().snapshots({}))); // counts those that nobody has
    BERTH_TRY(const auto built, list_templates(berth->store()));
    if (o.common.json) {
        json::Array out;
        for (const auto& one : all) out.emplace_back(image_json(one));
        json::Object document;
        document["images"] = std::move(out);
        json::Array templates;
        for (const auto& one : built) {
            json::Object shown;
            shown["name"] = *template_name(one);
            shown["snapshot"] = one.id;
            shown["bytes"] = snapshot_json(one).at("bytes");
            shown["created"] = rfc3339(one.created);
            templates.emplace_back(std::move(shown));
        }
        document["templates"] = std::move(templates);
        return print_document(document);
    }
    Table table({"NAME", "DIGEST", "SIZE", "AGE"});
    for (const auto& one : all)
        table.add({cell(one.name.empty() ? "-" : one.name, 120), one.digest.substr(0, 12),
                   brief(Bytes{one.bytes}), brief(system_clock().now() - one.created)});
    for (const auto& one : built)
        table.add({cell(*template_name(one), 120), one.id, size_text(one),
                   brief(system_clock().now() - one.created)});
    return print(table.text());
}

/// A sandbox or snapshot that stands on it would be lost with it.
Status check_unused(Berth& berth, const std::string& path)
{
    for (RecordQuery query;;) {
        BERTH_TRY(const auto page, berth.store().list(query));
        for (const auto& one : page)
            if (one.live() && one.spec.root.path == path)
                return fail(Code::Conflict, "sandbox {} is made from this image: berth rm {} first", one.id(),
                            one.id());
        if (page.size() < query.limit) break;
        query.after = page.back().id();
    }
    BERTH_TRY(const auto snapshots, berth.store().snapshots({}));
    for (const auto& one : snapshots)
        if (one.spec.root.path == path)
            return fail(Code::Conflict, "snapshot {} stands on this image{}", one.id,
                        one.note.empty() ? "" : fmt::format(" ({})", printable(one.note, 60)));
    return {};
}

/// Sandboxes that were made from it have what they need of its layers.
Result<int> remove_built(Berth& berth, const TemplateOptions& o, const SnapshotRecord& built)
{
    if (!o.dry_run) BERTH_CHECK(berth.run(berth.lifecycle().remove_snapshot(built.id)));
    if (!o.common.json) {
        say(fmt::format("{} {}", o.dry_run ? "would remove" : "removed", *template_name(built)));
        return 0;
    }
    json::Object document;
    document["name"] = *template_name(built);
    document["snapshot"] = built.id;
    document["dry_run"] = o.dry_run;
    return print_document(document);
}

Result<int> remove(const TemplateOptions& o)
{
    BERTH_TRY(const auto berth, open_berth(o.common));
    BERTH_TRY(const auto images, distribution::Images::open(berth->data()));
    BERTH_TRY(const auto all, images.list());
    const auto reference = distribution::parse_reference(o.name);
    const distribution::KeptImage* found = nullptr;
    for (const auto& one : all) {
        const bool digest = o.name.size() >= 8 && one.digest.starts_with(o.name);
        if (digest || (reference && one.name == reference->text())) found = &one;
    }
    if (found == nullptr) {
        BERTH_TRY(const auto built, find_template(berth->store(), o.name));
        if (built) return remove_built(*berth, o, *built);
    }
    if (found == nullptr)
        return fail(Code::NotFound, "no image '{}': berth template ls lists them", printable(o.name, 100));
    BERTH_CHECK(check_unused(*berth, found->path));
    if (!o.dry_run) BERTH_CHECK(images.remove(*found));
    if (o.common.json) {
        auto document = image_json(*found);
        document["dry_run"] = o.dry_run;
        return print_document(document);
    }
    say(fmt::format("{} {}", o.dry_run ? "would remove" : "removed",
                    found->name.empty() ? found->digest.substr(0, 12) : found->name));
    return 0;
}

} // namespace

int template_verb(int argc, char** argv)
{
    CLI::App app(
        "Images from registries, for the roots of sandboxes: pulled once, then --template image:NAME; and\n"
        "templates built here or at a server.\n\n"
        "Example:\n"
        "  berth template pull alpine:3.20\n"
        "  berth run --template image:alpine:3.20 -- cat /etc/os-release\n"
        "  berth template import docker-archive:mine.tar mine:1\n"
        "  berth template build --backend local Dockerfile --name mine && berth create --template mine\n",
        "berth template");
    TemplateOptions o;
    auto* pull_it = app.add_subcommand("pull", "Fetch an image; a name that is there is asked for again");
    pull_it
        ->add_option("name", o.name,
                     "NAME[:TAG|@sha256:DIGEST], with the registry in front where it is not docker.io")
        ->type_name("NAME")
        ->required();
    pull_it
        ->add_option("--username", o.username, "Log in as this one; the password is BERTH_REGISTRY_PASSWORD")
        ->type_name("NAME");
    pull_it->add_flag("--password-stdin", o.password_stdin, "Read the password's line from stdin");
    auto* take = app.add_subcommand("import", "Copy an image that lies here as a layout or an archive");
    take->add_option("source", o.source,
                     "oci:PATH[:TAG], oci-archive:PATH[:TAG] or docker-archive:PATH[:TAG]")
        ->type_name("IMAGE")
        ->required();
    take->add_option("name", o.name, "What it is called from now on")->type_name("NAME")->required();
    auto* ls = app.add_subcommand("ls", "List them");
    auto* rm = app.add_subcommand("rm", "Remove one; not while a sandbox or snapshot stands on it");
    rm->add_option("name", o.name, "Its name, or the beginning of its digest")->type_name("NAME")->required();
    rm->add_flag("--dry-run", o.dry_run, "Say what would be removed, and remove nothing");
    TemplateBuildOptions build;
    auto* build_it = app.add_subcommand("build", "Build one here or at an E2B server, from a Dockerfile");
    add_template_build(*build_it, build);
    for (auto* verb : {pull_it, take, ls, rm, build_it}) add_common(*verb, o.common);
    app.require_subcommand(1);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = *build_it  ? template_build(build, o.common)
                      : *pull_it ? pull(o)
                      : *take    ? import(o)
                      : *ls      ? list(o)
                                 : remove(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli
