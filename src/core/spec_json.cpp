#include "core/spec_json.hpp"

#include "policy/document.hpp"

namespace berth {

namespace {

json::Object pairs(const std::map<std::string, std::string>& all)
{
    json::Object out;
    for (const auto& [name, value] : all) out[name] = value;
    return out;
}

Result<std::map<std::string, std::string>> read_pairs(const json::Reader& at)
{
    std::map<std::string, std::string> out;
    BERTH_TRY(const auto members, at.members());
    for (const auto& [name, value] : members) {
        BERTH_TRY(out[name], value.string());
    }
    return out;
}

std::string_view kind_name(Template::Kind kind)
{
    switch (kind) {
    case Template::Kind::Host: return "host";
    case Template::Kind::Live: return "live";
    case Template::Kind::Directory: return "dir";
    case Template::Kind::Tar: return "tar";
    case Template::Kind::Oci: return "oci";
    case Template::Kind::Image: return "image";
    }
    return "host";
}

json::Object mount_json(const Mount& mount)
{
    json::Object out;
    out["source"] = mount.source;
    out["target"] = mount.target;
    out["mode"] = to_string(mount.mode);
    if (mount.workspace) out["workspace"] = true;
    return out;
}

json::Object volume_json(const Volume& volume)
{
    json::Object out;
    out["name"] = volume.name;
    out["target"] = volume.target;
    out["mode"] = volume.writable ? "rw" : "ro";
    if (!volume.source.empty()) out["source"] = volume.source;
    return out;
}

Result<Volume> read_volume(const json::Reader& at)
{
    BERTH_CHECK(at.only({"name", "target", "mode", "source"}));
    Volume out;
    BERTH_TRY(const auto name, at.at("name"));
    BERTH_TRY(out.name, name.string());
    BERTH_TRY(const auto target, at.at("target"));
    BERTH_TRY(out.target, target.string());
    BERTH_TRY(const auto mode_at, at.at("mode"));
    BERTH_TRY(const auto mode, mode_at.string());
    if (mode != "rw" && mode != "ro") return mode_at.refuse("no mode '{}'", mode);
    out.writable = mode == "rw";
    BERTH_TRY(const auto source, at.find("source"));
    if (source) {
        BERTH_TRY(out.source, source->string());
    }
    return out;
}

Result<Template> read_template(const json::Reader& at)
{
    BERTH_CHECK(at.only({"kind", "path", "tag"}));
    BERTH_TRY(const auto kind_at, at.at("kind"));
    BERTH_TRY(const auto kind, kind_at.string());
    Template out;
    bool known = false;
    for (const auto candidate : {Template::Kind::Host, Template::Kind::Live, Template::Kind::Directory,
                                 Template::Kind::Tar, Template::Kind::Oci, Template::Kind::Image}) {
        if (kind != kind_name(candidate)) continue;
        out.kind = candidate;
        known = true;
    }
    if (!known) return kind_at.refuse("no template '{}'", kind);
    BERTH_TRY(const auto path, at.find("path"));
    if (path) {
        BERTH_TRY(out.path, path->string());
    }
    BERTH_TRY(const auto tag, at.find("tag"));
    if (tag) {
        BERTH_TRY(out.tag, tag->string());
    }
    return out;
}

Result<Mount> read_mount(const json::Reader& at)
{
    BERTH_CHECK(at.only({"source", "target", "mode", "workspace"}));
    Mount out;
    BERTH_TRY(const auto source, at.at("source"));
    BERTH_TRY(out.source, source.string());
    BERTH_TRY(const auto target, at.at("target"));
    BERTH_TRY(out.target, target.string());
    BERTH_TRY(const auto mode_at, at.at("mode"));
    BERTH_TRY(const auto mode, mode_at.string());
    bool known = false;
    for (const auto candidate : {Mount::Mode::ReadOnly, Mount::Mode::ReadWrite, Mount::Mode::Copy}) {
        if (mode != to_string(candidate)) continue;
        out.mode = candidate;
        known = true;
    }
    if (!known) return mode_at.refuse("no mode '{}'", mode);
    BERTH_TRY(const auto workspace, at.find("workspace"));
    if (workspace) {
        BERTH_TRY(out.workspace, workspace->boolean());
    }
    return out;
}

} // namespace

json::Object to_json(const SandboxSpec& spec)
{
    json::Object out;
    out["id"] = spec.id;
    if (!spec.name.empty()) out["name"] = spec.name;
    json::Object root;
    root["kind"] = kind_name(spec.root.kind);
    if (!spec.root.path.empty()) root["path"] = spec.root.path;
    if (!spec.root.tag.empty()) root["tag"] = spec.root.tag;
    out["template"] = std::move(root);
    out["policy"] = policy::to_json(spec.policy);
    out["limits"] = spec.limit_mode == LimitMode::Enforce ? "enforce" : "best-effort";
    json::Array mounts;
    for (const auto& mount : spec.mounts) mounts.emplace_back(mount_json(mount));
    out["mounts"] = std::move(mounts);
    // Left out when there are none, so that the hash of a spec without them is what it always was.
    if (!spec.volumes.empty()) {
        json::Array volumes;
        for (const auto& volume : spec.volumes) volumes.emplace_back(volume_json(volume));
        out["volumes"] = std::move(volumes);
    }
    out["env"] = pairs(spec.env);
    out["user"] = spec.user;
    if (!spec.workdir.empty()) out["workdir"] = spec.workdir;
    if (!spec.hostname.empty()) out["hostname"] = spec.hostname;
    out["labels"] = pairs(spec.labels);
    return out;
}

Result<SandboxSpec> read_spec(const json::Reader& at)
{
    BERTH_CHECK(at.only({"id", "name", "template", "policy", "limits", "mounts", "volumes", "env", "user",
                         "workdir", "hostname", "labels"}));
    SandboxSpec out;
    const auto text = [&](std::string_view name, std::string& value) -> Status {
        BERTH_TRY(const auto found, at.find(name));
        if (found) {
            BERTH_TRY(value, found->string());
        }
        return {};
    };
    BERTH_CHECK(text("id", out.id));
    BERTH_CHECK(text("name", out.name));
    BERTH_CHECK(text("user", out.user));
    BERTH_CHECK(text("workdir", out.workdir));
    BERTH_CHECK(text("hostname", out.hostname));
    BERTH_TRY(const auto root, at.at("template"));
    BERTH_TRY(out.root, read_template(root));
    BERTH_TRY(const auto policy, at.at("policy"));
    BERTH_TRY(out.policy, policy::parse(json::dump(policy.value()), policy::Syntax::Json));
    BERTH_TRY(const auto limits_at, at.at("limits"));
    BERTH_TRY(const auto limits, limits_at.string());
    if (limits != "enforce" && limits != "best-effort") return limits_at.refuse("no mode '{}'", limits);
    out.limit_mode = limits == "enforce" ? LimitMode::Enforce : LimitMode::BestEffort;
    BERTH_TRY(const auto mounts_at, at.at("mounts"));
    BERTH_TRY(const auto mounts, mounts_at.array());
    for (const auto& one : mounts) {
        BERTH_TRY(auto mount, read_mount(one));
        out.mounts.push_back(std::move(mount));
    }
    BERTH_TRY(const auto volumes_at, at.find("volumes"));
    if (volumes_at) {
        BERTH_TRY(const auto volumes, volumes_at->array());
        for (const auto& one : volumes) {
            BERTH_TRY(auto volume, read_volume(one));
            out.volumes.push_back(std::move(volume));
        }
    }
    BERTH_TRY(const auto env, at.at("env"));
    BERTH_TRY(out.env, read_pairs(env));
    BERTH_TRY(const auto labels, at.at("labels"));
    BERTH_TRY(out.labels, read_pairs(labels));
    return out;
}

} // namespace berth
