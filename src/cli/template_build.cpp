#include "cli/template_build.hpp"

#include <CLI/CLI.hpp>

#include "backend/e2b/template_build.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "cli/dockerfile.hpp"
#include "cli/local_build.hpp"
#include "cli/session.hpp"
#include "cli/supervised.hpp"

namespace berth::cli {

namespace {

e2b::BuildStep step_of(const DockerStep& from)
{
    e2b::BuildStep out{.args = from.args, .files_hash = {}};
    switch (from.kind) {
    case DockerStep::Kind::Run: out.type = e2b::BuildStep::Type::Run; break;
    case DockerStep::Kind::Env: out.type = e2b::BuildStep::Type::Env; break;
    case DockerStep::Kind::Workdir: out.type = e2b::BuildStep::Type::Workdir; break;
    case DockerStep::Kind::User: out.type = e2b::BuildStep::Type::User; break;
    case DockerStep::Kind::Copy: out.type = e2b::BuildStep::Type::Copy; break;
    }
    return out;
}

/// A server's Copy has one source.
void add_steps(const DockerStep& from, std::vector<e2b::BuildStep>& to)
{
    if (from.kind != DockerStep::Kind::Copy) {
        to.push_back(step_of(from));
        return;
    }
    for (const auto& source : from.sources) {
        auto step = step_of(from);
        step.args = {source, from.destination, from.owner, from.mode};
        to.push_back(std::move(step));
    }
}

Result<Dockerfile> read_dockerfile(const TemplateBuildOptions& o)
{
    BERTH_TRY(const auto text, read_file(o.file, 4_MiB));
    auto file = parse_dockerfile(text);
    if (!file) return std::unexpected(std::move(file).error().while_doing("reading " + printable(o.file)));
    for (const auto& one : file->skipped) say(one + " says nothing a template has");
    return file;
}

std::string context_of(const TemplateBuildOptions& o)
{
    const auto slash = o.file.rfind('/');
    const auto beside = slash == std::string::npos ? "." : slash == 0 ? "/" : o.file.substr(0, slash);
    return o.context.empty() ? beside : o.context;
}

Result<e2b_client::TemplateWish> wish_of(const TemplateBuildOptions& o)
{
    auto file = read_dockerfile(o);
    if (!file) return std::unexpected(std::move(file).error());
    e2b_client::TemplateWish wish;
    wish.what.name = o.name;
    wish.what.tags = o.tags;
    wish.what.cpus = o.cpus;
    if (!o.memory.empty()) {
        BERTH_TRY(const auto memory, parse_bytes(o.memory));
        if (memory.count % (1 << 20) != 0) return fail(Code::Invalid, "--memory in whole MiB");
        wish.what.memory_mb = static_cast<unsigned>(memory.count >> 20);
    }
    // A template of the server's own, not an image.
    if (file->from == "base")
        wish.start.from_template = file->from;
    else
        wish.start.from_image = file->from;
    for (const auto& step : file->steps) add_steps(step, wish.start.steps);
    wish.start.start_cmd = o.start.empty() ? file->start : o.start;
    wish.start.ready_cmd = o.ready;
    wish.context = context_of(o);
    wish.force = o.force;
    return wish;
}

void undo_build(const Common& common, const std::string& token)
{
    const auto cleared = [&]() -> Status {
        BERTH_TRY(const auto berth, open_berth(common, Room::Frees));
        return clear_build(*berth, token);
    }();
    say(cleared ? "interrupted: the build's sandbox is removed, its whole steps are used again"
                : "interrupted; the build's sandbox goes in an hour: " + cleared.error().line());
}

/// What only a server does with its templates is refused by name.
Result<int> build_local(const TemplateBuildOptions& o, const Common& common)
{
    BERTH_CHECK(check_template_name(o.name));
    if (!o.tags.empty() || o.cpus != 0 || !o.memory.empty() || !o.start.empty() || !o.ready.empty())
        return fail(Code::Unsupported,
                    "--tag, --cpus, --memory, --start and --ready are for a server's templates");
    LocalBuildWish wish{
        .file = {}, .name = o.name, .context = context_of(o), .force = o.force, .token = random_hex(8)};
    BERTH_TRY(wish.file, read_dockerfile(o));
    if (!wish.file.start.empty()) say("CMD and ENTRYPOINT are not started in sandboxes of this machine");
    const auto build = [&]() -> Result<int> {
        BERTH_TRY(const auto berth, open_berth(common));
        BERTH_TRY(const auto built, build_here(*berth, common, wish));
        if (!common.json) return print(o.name + "\n");
        json::Object out;
        out["name"] = o.name;
        out["snapshot"] = built.id;
        return print_document(out);
    };
    const auto work = [&] {
        const auto code = build();
        return code ? *code : report(code.error(), common);
    };
    return supervised(work, [&] { undo_build(common, wish.token); });
}

} // namespace

void add_template_build(CLI::App& app, TemplateBuildOptions& o)
{
    app.add_option("file", o.file, "A Dockerfile")->type_name("FILE")->required();
    app.add_option("--name", o.name, "What it is called: NAME or NAME:TAG")->type_name("NAME")->required();
    app.add_option(
           "--backend", o.backend,
           "Where: local (this machine, without a server and without a network), or e2b (E2B_API_KEY and "
           "E2B_API_URL say which server)")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--context", o.context, "The directory COPY takes files from; else the file's own")
        ->type_name("DIR");
    app.add_option("--tag", o.tags, "A further tag; repeatable")->type_name("TAG");
    app.add_option("--cpus", o.cpus, "How many its sandboxes have")->type_name("N");
    app.add_option("--memory", o.memory, "How much its sandboxes have: 512MiB, 2GiB")->type_name("SIZE");
    app.add_option("--start", o.start, "What runs in each sandbox; else what CMD says")->type_name("COMMAND");
    app.add_option("--ready", o.ready, "Asked until it succeeds, before a sandbox is given out")
        ->type_name("COMMAND");
    app.add_flag("--force", o.force, "Use nothing that was made before");
}

Result<int> template_build(const TemplateBuildOptions& o, const Common& common)
{
    if (o.backend == "local") return build_local(o, common);
    if (o.backend != "e2b")
        return fail(
            Code::Unsupported,
            "backend {} builds no templates: --backend local builds one here, e2b one at an E2B server, "
            "which berth serve is, too",
            printable(o.backend, 40));
    BERTH_TRY(auto wish, wish_of(o));
    BERTH_TRY(auto config, e2b_client::read_config(e2b_client::config_environment()));
    e2b_client::Api api(std::move(config));
    const auto told = [&](const e2b::BuildLine& line) {
        if (line.level != "debug" || talkative()) say(printable_utf8(line.message));
    };
    BERTH_TRY(const auto built, e2b_client::build_template(api, std::move(wish), told));
    if (!common.json) return print(o.name + "\n");
    json::Object out;
    out["name"] = o.name;
    out["template_id"] = built.id;
    out["build_id"] = built.build;
    return print_document(out);
}

} // namespace berth::cli
