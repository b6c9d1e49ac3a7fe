#include "server/e2b/built.hpp"

#include "base/json_reader.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

constexpr std::string_view kStates[] = {"waiting", "building", "ready", "error"};

std::int64_t count(WallTime time) { return time.time_since_epoch().count(); }

Result<WallTime> time_at(const json::Reader& from, std::string_view name)
{
    BERTH_TRY(const auto number, fields::whole(from, name, 0, INT64_MAX));
    return WallTime(std::chrono::nanoseconds(number));
}

json::Object texts(const std::map<std::string, std::string>& from)
{
    json::Object out;
    for (const auto& [name, value] : from) out[name] = value;
    return out;
}

json::Object build_json(const Build& build)
{
    json::Object out;
    out["id"] = build.id;
    out["state"] = to_string(build.state);
    json::Array tags;
    for (const auto& tag : build.tags) tags.emplace_back(tag);
    out["tags"] = std::move(tags);
    out["snapshot"] = build.snapshot;
    out["failure"] = build.failure;
    out["failedStep"] = build.failed_step;
    out["created"] = count(build.created);
    out["finished"] = count(build.finished);
    out["user"] = build.defaults.user;
    out["workdir"] = build.defaults.workdir;
    out["env"] = texts(build.defaults.env);
    out["startCmd"] = build.defaults.start_cmd;
    out["readyCmd"] = build.defaults.ready_cmd;
    out["ownAccounts"] = build.defaults.own_accounts;
    out["interpreter"] = build.defaults.interpreter;
    return out;
}

Result<BuildPtr> parse_build(const json::Reader& at)
{
    auto out = std::make_shared<Build>();
    BERTH_TRY(out->id, fields::text(at, "id"));
    BERTH_TRY(const auto state, fields::text(at, "state"));
    for (std::size_t i = 0; i < std::size(kStates); ++i)
        if (kStates[i] == state) out->state = static_cast<BuildState>(i);
    BERTH_TRY(const auto tags, at.at("tags"));
    BERTH_TRY(out->tags, tags.strings());
    BERTH_TRY(out->snapshot, fields::text(at, "snapshot"));
    BERTH_TRY(out->failure, fields::text(at, "failure"));
    BERTH_TRY(out->failed_step, fields::text(at, "failedStep"));
    BERTH_TRY(out->created, time_at(at, "created"));
    BERTH_TRY(out->finished, time_at(at, "finished"));
    BERTH_TRY(out->defaults.user, fields::text(at, "user"));
    BERTH_TRY(out->defaults.workdir, fields::text(at, "workdir"));
    BERTH_TRY(out->defaults.env, fields::texts(at, "env"));
    BERTH_TRY(out->defaults.start_cmd, fields::text(at, "startCmd"));
    BERTH_TRY(out->defaults.ready_cmd, fields::text(at, "readyCmd"));
    BERTH_TRY(out->defaults.own_accounts, fields::flag(at, "ownAccounts"));
    BERTH_TRY(out->defaults.interpreter, fields::flag(at, "interpreter"));
    return out;
}

} // namespace

std::string_view to_string(BuildState state) noexcept { return kStates[static_cast<std::size_t>(state)]; }

BuildPtr Built::build(std::string_view wanted) const
{
    for (const auto& one : builds)
        if (one->id == wanted) return one;
    return nullptr;
}

std::string render(const Built& built)
{
    json::Object out;
    out["v"] = 1;
    out["id"] = built.id;
    out["tenant"] = built.tenant;
    out["alias"] = built.alias;
    out["cpus"] = built.cpus;
    out["memoryMB"] = built.memory_mb;
    out["created"] = count(built.created);
    out["updated"] = count(built.updated);
    json::Object tags;
    for (const auto& [tag, build] : built.tags) {
        const auto since = built.tagged.find(tag);
        tags[tag] =
            json::Object{{"build", build}, {"since", since == built.tagged.end() ? 0 : count(since->second)}};
    }
    out["tags"] = std::move(tags);
    json::Array builds;
    for (const auto& one : built.builds) builds.emplace_back(build_json(*one));
    out["builds"] = std::move(builds);
    return json::dump(out) + "\n";
}

Result<Built> parse_built(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    Built out;
    BERTH_TRY(out.id, fields::text(reader, "id"));
    BERTH_TRY(out.tenant, fields::text(reader, "tenant"));
    BERTH_TRY(out.alias, fields::text(reader, "alias"));
    if (out.id.empty() || out.tenant.empty() || out.alias.empty()) return reader.refuse("no name");
    BERTH_TRY(const auto cpus, fields::whole(reader, "cpus", 0, 1024));
    BERTH_TRY(const auto memory, fields::whole(reader, "memoryMB", 0, 1 << 24));
    out.cpus = static_cast<unsigned>(cpus);
    out.memory_mb = static_cast<unsigned>(memory);
    BERTH_TRY(out.created, time_at(reader, "created"));
    BERTH_TRY(out.updated, time_at(reader, "updated"));
    BERTH_TRY(const auto tags, reader.at("tags"));
    BERTH_TRY(const auto named, tags.members());
    for (const auto& [tag, at] : named) {
        BERTH_TRY(out.tags[tag], fields::text(at, "build"));
        BERTH_TRY(out.tagged[tag], time_at(at, "since"));
    }
    BERTH_TRY(const auto builds, reader.at("builds"));
    BERTH_TRY(const auto all, builds.array());
    for (const auto& one : all) {
        BERTH_TRY(auto build, parse_build(one));
        out.builds.push_back(std::move(build));
    }
    return out;
}

} // namespace berth::e2b
