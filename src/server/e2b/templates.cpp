#include "server/e2b/templates.hpp"

#include <fcntl.h>

#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "lifecycle/template_note.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kMostTemplates = 1000; // of one tenant
constexpr std::size_t kMostBuilds = 20;      // that are remembered of one template
constexpr Bytes kLargestLog = 64_MiB;

std::string directory_of(const gate::Ground& ground) { return ground.berth.data() + "/e2b/templates"; }

std::string make_uuid()
{
    auto digits = random_hex(16);
    digits[12] = '4';
    digits[16] = "89ab"[static_cast<unsigned char>(digits[16]) % 4];
    return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                       digits.substr(16, 4), digits.substr(20));
}

Result<std::string> clean_tag(const std::string& tag)
{
    auto name = parse_template_name("x:" + tag);
    if (!name) return fail(Code::Invalid, "invalid tag '{}'", printable(tag, 60));
    return name->tag;
}

} // namespace

Templates::Templates(gate::Ground& ground) : ground_(ground), documents_(ground.pool, directory_of(ground)) {}

std::string note_of(const Build& build) { return fmt::format("{}{}", kTemplateNote, build.id); }

Task<Status> Templates::save(const Built& built)
{
    return documents_.save(built.id + ".json", render(built));
}

Task<Status> Templates::keep_log(const Build& build)
{
    std::string text;
    for (const auto& line : build.log) text += json::dump(line_json(line)) + "\n";
    return documents_.save(build.id + ".log", std::move(text));
}

Task<Result<std::vector<BuildLine>>> Templates::log(BuildPtr build)
{
    if (!build->log.empty() || build->state == BuildState::Waiting || build->state == BuildState::Building)
        co_return build->log;
    const std::string name = build->id + ".log";
    co_return co_await ground_.pool.call([&]() -> Result<std::vector<BuildLine>> {
        BERTH_TRY(const auto directory, gate::open_directory(documents_.directory()));
        auto text = read_file_at(directory.get(), name, kLargestLog);
        if (!text && text.error().code == Code::NotFound) return std::vector<BuildLine>{};
        if (!text) return std::unexpected(std::move(text).error());
        std::vector<BuildLine> out;
        for (const auto& line : split(*text, '\n')) {
            if (line.empty()) continue;
            BERTH_TRY(const auto value, json::parse(line));
            BERTH_TRY(auto one, read_line(value));
            out.push_back(std::move(one));
        }
        return out;
    });
}

/// What a build that did not finish may have left in the world.
Task<Status> Templates::clear(BuildPtr build, std::string why)
{
    auto& lifecycle = ground_.berth.lifecycle();
    auto record = co_await lifecycle.find(fmt::format("{}{}", kBuildKey, build->id));
    if (record && record->live()) {
        log::info("a build's sandbox ends", {{"build", build->id}, {"why", why}});
        auto gone = co_await lifecycle.destroy(record->id());
        if (!gone && gone.error().code != Code::NotFound) co_return std::unexpected(std::move(gone).error());
    }
    BERTH_CO_TRY(const auto all,
                 co_await ground_.pool.call([&] { return ground_.berth.store().snapshots({}); }));
    for (const auto& one : all)
        if (one.note == note_of(*build)) BERTH_CO_CHECK(co_await lifecycle.remove_snapshot(one.id));
    co_return Status{};
}

Task<Status> Templates::load()
{
    std::vector<Built> found;
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto directory, gate::open_directory(documents_.directory()));
        BERTH_TRY(const auto names, list_names(directory.get()));
        for (const auto& name : names) {
            if (!name.ends_with(".json")) continue;
            auto text = read_file_at(directory.get(), name, 8_MiB);
            auto built = text ? parse_built(*text) : Result<Built>(std::unexpected(text.error()));
            if (built)
                found.push_back(*std::move(built));
            else
                log::warn("a template cannot be read", {{"name", name}, {"why", built.error().line()}});
        }
        return {};
    }));
    for (auto& one : found) {
        auto built = std::make_shared<Built>(std::move(one));
        templates_[built->id] = built;
        for (const auto& build : built->builds) {
            if (build->state != BuildState::Building) continue;
            if (auto gone = co_await clear(build, "its server ended"); !gone)
                log::warn("what a build left could not be removed",
                          {{"build", build->id}, {"why", gone.error().line()}});
            build->state = BuildState::Error;
            build->failure = "the server was restarted while the template was built: build it again";
            build->finished = system_clock().now();
            BERTH_CO_CHECK(co_await save(*built));
        }
    }
    co_return Status{};
}

Result<BuiltPtr> Templates::of_tenant(std::string_view name, const std::string& tenant) const
{
    const auto missing = [&] {
        return fail(Code::NotFound, "template '{}' not found", printable(name, 100));
    };
    // Somebody else's is not there.
    if (const auto at = templates_.find(name); at != templates_.end() && at->second->tenant == tenant)
        return at->second;
    const auto parsed = parse_template_name(name);
    if (!parsed || (!parsed->space.empty() && parsed->space != lower_case(tenant))) return missing();
    for (const auto& [id, built] : templates_)
        if (built->tenant == tenant && (built->alias == parsed->alias || built->id == parsed->alias))
            return built;
    return missing();
}

Result<Templates::One> Templates::build_of(std::string_view id, std::string_view build,
                                           const std::string& tenant) const
{
    BERTH_TRY(const auto built, of_tenant(id, tenant));
    auto found = built->build(build);
    if (!found) return fail(Code::NotFound, "build '{}' not found", printable(build, 60));
    return One{.built = built, .build = std::move(found)};
}

std::vector<BuiltPtr> Templates::all(const std::string& tenant) const
{
    std::vector<BuiltPtr> out;
    for (const auto& [id, built] : templates_)
        if (built->tenant == tenant) out.push_back(built);
    std::ranges::sort(out, [](const auto& a, const auto& b) { return a->created > b->created; });
    return out;
}

std::optional<Templates::One> Templates::find(const TemplateName& name, const std::string& tenant) const
{
    if (!name.space.empty() && name.space != lower_case(tenant)) return std::nullopt;
    const auto built = of_tenant(name.alias, tenant);
    if (!built) return std::nullopt;
    const auto at = (*built)->tags.find(name.tag);
    if (at == (*built)->tags.end()) return std::nullopt;
    auto build = (*built)->build(at->second);
    if (!build || build->snapshot.empty()) return std::nullopt;
    return One{.built = *built, .build = std::move(build)};
}

Task<Result<Templates::One>> Templates::enrol(NewTemplate wish, std::string tenant)
{
    BERTH_CO_TRY(const auto name, parse_template_name(wish.name));
    if (!name.space.empty() && name.space != lower_case(tenant))
        co_return fail(Code::Denied, "namespace '{}' is not yours", name.space);
    if (name.alias == kBaseTemplate)
        co_return fail(Code::Denied, "the name '{}' is taken by the template that is always there",
                       kBaseTemplate);
    auto build = std::make_shared<Build>();
    build->id = make_uuid();
    build->created = system_clock().now();
    const bool tagged = wish.name.find(':') != std::string::npos;
    if (tagged || wish.tags.empty()) build->tags.push_back(name.tag);
    for (const auto& tag : wish.tags) {
        BERTH_CO_TRY(auto clean, clean_tag(tag));
        if (std::ranges::find(build->tags, clean) == build->tags.end())
            build->tags.push_back(std::move(clean));
    }
    BuiltPtr built;
    if (const auto known = of_tenant(name.alias, tenant)) {
        built = *known;
    } else {
        if (all(tenant).size() >= kMostTemplates)
            co_return fail(Code::Exhausted, "{} templates: remove some", kMostTemplates);
        built = std::make_shared<Built>();
        built->id = "t" + random_hex(10);
        built->tenant = tenant;
        built->alias = name.alias;
        built->created = build->created;
        templates_[built->id] = built;
    }
    built->updated = build->created;
    if (wish.cpus != 0) built->cpus = wish.cpus;
    if (wish.memory_mb != 0) built->memory_mb = wish.memory_mb;
    built->builds.push_back(build);
    BERTH_CO_CHECK(co_await drop_unnamed(*built));
    BERTH_CO_CHECK(co_await save(*built));
    co_return One{.built = std::move(built), .build = std::move(build)};
}

/// The files of builds that nobody can ask for any more, and all of the oldest of them.
Task<Status> Templates::drop_unnamed(Built& built)
{
    const auto named = [&](const Build& build) {
        return std::ranges::any_of(built.tags, [&](const auto& tag) { return tag.second == build.id; });
    };
    const auto builds = built.builds;
    std::size_t left = builds.size();
    for (const auto& build : builds) {
        if (build->state == BuildState::Building || named(*build)) continue;
        if (!build->snapshot.empty()) {
            auto removed = co_await ground_.berth.lifecycle().remove_snapshot(build->snapshot);
            if (!removed && removed.error().code != Code::NotFound) co_return removed;
            build->snapshot.clear();
        }
        if (left <= kMostBuilds) continue;
        --left;
        std::erase(built.builds, build);
        BERTH_CO_CHECK(co_await documents_.remove(build->id + ".log"));
    }
    co_return Status{};
}

/// Nobody is told of its end before that is on disk.
Task<Status> Templates::finish(One one)
{
    auto& [built, build] = one;
    const bool ready = build->failure.empty() && !build->snapshot.empty();
    // Removed meanwhile: nobody is to find it.
    if (!templates_.contains(built->id)) {
        build->state = BuildState::Error;
        co_return co_await clear(build, "its template was removed");
    }
    if (!ready) BERTH_CO_CHECK(co_await clear(build, "it failed"));
    BERTH_CO_CHECK(co_await keep_log(*build));
    build->finished = built->updated = system_clock().now();
    for (const auto& tag : build->tags) {
        if (!ready) break;
        built->tags[tag] = build->id;
        built->tagged[tag] = build->finished;
    }
    build->state = ready ? BuildState::Ready : BuildState::Error;
    std::string text = render(*built);
    build->state = BuildState::Building;
    BERTH_CO_CHECK(co_await documents_.save(built->id + ".json", std::move(text)));
    build->state = ready ? BuildState::Ready : BuildState::Error;
    BERTH_CO_CHECK(co_await drop_unnamed(*built));
    co_return co_await save(*built);
}

Task<Status> Templates::tag(BuiltPtr built, BuildPtr build, std::vector<std::string> tags)
{
    std::vector<std::string> clean;
    for (const auto& tag : tags) {
        BERTH_CO_TRY(auto one, clean_tag(tag));
        clean.push_back(std::move(one));
    }
    for (const auto& tag : clean) {
        built->tags[tag] = build->id;
        built->tagged[tag] = system_clock().now();
    }
    built->updated = system_clock().now();
    BERTH_CO_CHECK(co_await save(*built));
    BERTH_CO_CHECK(co_await drop_unnamed(*built));
    co_return co_await save(*built);
}

Task<Status> Templates::untag(BuiltPtr built, std::vector<std::string> tags)
{
    for (auto& tag : tags) {
        BERTH_CO_TRY(tag, clean_tag(tag));
        if (tag == "default") co_return fail(Code::Invalid, "the tag 'default' cannot be removed");
        if (!built->tags.contains(tag)) co_return fail(Code::NotFound, "tag '{}' not found", tag);
    }
    for (const auto& tag : tags) {
        built->tags.erase(tag);
        built->tagged.erase(tag);
    }
    BERTH_CO_CHECK(co_await save(*built));
    BERTH_CO_CHECK(co_await drop_unnamed(*built));
    co_return co_await save(*built);
}

/// The name goes last: what is left after a crash can be removed again.
Task<Status> Templates::remove(BuiltPtr built)
{
    const auto builds = built->builds;
    for (const auto& build : builds) {
        build->cancelled = true;
        if (build->state != BuildState::Waiting)
            BERTH_CO_CHECK(co_await clear(build, "its template is removed"));
    }
    for (const auto& build : builds) BERTH_CO_CHECK(co_await documents_.remove(build->id + ".log"));
    BERTH_CO_CHECK(co_await documents_.remove(built->id + ".json"));
    templates_.erase(built->id);
    co_return Status{};
}

} // namespace berth::e2b
