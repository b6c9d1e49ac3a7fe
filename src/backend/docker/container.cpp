#include "backend/docker/container.hpp"

#include <cmath>

#include "backend/docker/frozen_root.hpp"
#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "core/exo_spec.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 62;

std::string text_at(const json::Value& value, std::string_view name)
{
    const auto* object = value.if_object();
    if (object == nullptr) return {};
    const auto* member = object->if_contains(name);
    const auto* text = member == nullptr ? nullptr : member->if_string();
    return text == nullptr ? std::string{} : std::string(*text);
}

bool flag_at(const json::Value& value, std::string_view name)
{
    const auto* object = value.if_object();
    const auto* member = object == nullptr ? nullptr : object->if_contains(name);
    return member != nullptr && member->is_bool() && member->get_bool();
}

std::int64_t number_at(const json::Value& value, std::string_view name)
{
    const auto* object = value.if_object();
    const auto* member = object == nullptr ? nullptr : object->if_contains(name);
    return member != nullptr && member->is_int64() ? member->get_int64() : 0;
}

/// As limits_document() asks for them, or as the client of docker does. Zero and less is none.
policy::Limits limits_at(const json::Value& host)
{
    policy::Limits out;
    if (const auto memory = number_at(host, "Memory"); memory > 0)
        out.memory = Bytes{static_cast<std::uint64_t>(memory)};
    const auto period = number_at(host, "CpuPeriod");
    if (const auto cpus = number_at(host, "NanoCpus"); cpus > 0)
        out.cpus = static_cast<double>(cpus) / 1e9;
    else if (const auto quota = number_at(host, "CpuQuota"); quota > 0)
        out.cpus = static_cast<double>(quota) / static_cast<double>(period > 0 ? period : 100'000);
    if (const auto pids = number_at(host, "PidsLimit"); pids > 0)
        out.pids = static_cast<decltype(out.pids)::value_type>(pids);
    return out;
}

std::map<std::string, std::string> labels_at(const json::Value& value, std::string_view name)
{
    std::map<std::string, std::string> out;
    const auto* object = value.if_object();
    const auto* member = object == nullptr ? nullptr : object->if_contains(name);
    const auto* labels = member == nullptr ? nullptr : member->if_object();
    if (labels == nullptr) return out;
    for (const auto& one : *labels)
        if (const auto* text = one.value().if_string()) out[std::string(one.key())] = std::string(*text);
    return out;
}

json::Object bind_mount(const std::string& source, const std::string& target, bool read_only)
{
    json::Object out;
    out["Type"] = "bind";
    out["Source"] = source;
    out["Target"] = target;
    out["ReadOnly"] = read_only;
    // The engine makes only the top of a bind read-only: what is mounted below it is left out.
    if (read_only) out["BindOptions"] = json::Object{{"NonRecursive", true}};
    return out;
}

json::Array strings(std::initializer_list<std::string_view> all)
{
    json::Array out;
    for (const auto one : all) out.emplace_back(std::string(one));
    return out;
}

json::Object host_config(const ContainerWish& wish)
{
    const auto& spec = wish.spec;
    json::Object out;
    json::Array mounts;
    // What runs as its first process at the next start nobody inside may change.
    if (!wish.shown.empty())
        mounts.emplace_back(bind_mount(wish.shown + "/keeper", std::string(kInside) + "/keeper", true));
    for (const auto& mount : spec.mounts)
        mounts.emplace_back(bind_mount(mount.source, mount.target, mount.mode == Mount::Mode::ReadOnly));
    for (const auto& volume : spec.volumes)
        mounts.emplace_back(bind_mount(volume.source, volume.target, !volume.writable));
    if (!wish.machine_id.empty()) mounts.emplace_back(bind_mount(wish.machine_id, "/etc/machine-id", true));
    out["Mounts"] = std::move(mounts);
    const auto root = frozen_root(spec);
    if (root.frozen) out["ReadonlyRootfs"] = true;
    // Where the keeper makes its socket: in memory and small, so that root inside can fill nothing with it.
    json::Object scratch;
    if (!wish.shown.empty()) scratch[kInside] = "rw,noexec,nosuid,nodev,mode=755,size=64k";
    // Elsewhere the keeper lies in the root beside it, and its sessions listen here.
    if (wish.shown.empty()) scratch[kRunInside] = "rw,noexec,nosuid,nodev,mode=700,size=64k";
    for (const auto& path : root.scratch) scratch[path] = "rw,exec,nosuid,nodev,mode=1777,size=25%";
    out["Tmpfs"] = std::move(scratch);
    out["NetworkMode"] = spec.policy.network == policy::Network::Host ? "host" : "none";
    // The keeper needs the first six for its work; root inside gets what a usual image's root expects.
    out["CapDrop"] = strings({"ALL"});
    out["CapAdd"] = strings({"SETUID", "SETGID", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID",
                             "NET_BIND_SERVICE", "SYS_CHROOT"});
    if (spec.policy.privileges == policy::Privileges::None)
        out["SecurityOpt"] = strings({"no-new-privileges"});
    for (auto& limit : limits_document(spec.policy.limits)) out[limit.key()] = limit.value();
    // Commands that the keeper starts are limited by it; those that the engine starts have the container's.
    if (const auto& files = spec.policy.limits.open_files; files && wish.shown.empty())
        out["Ulimits"] = json::Array{json::Object{{"Name", "nofile"}, {"Soft", *files}, {"Hard", *files}}};
    json::Array devices;
    for (const auto& device : spec.policy.devices)
        devices.emplace_back(
            json::Object{{"PathOnHost", device}, {"PathInContainer", device}, {"CgroupPermissions", "rwm"}});
    if (!devices.empty()) out["Devices"] = std::move(devices);
    out["LogConfig"] = json::Object{{"Type", "none"}};
    out["RestartPolicy"] = json::Object{{"Name", "no"}};
    return out;
}

} // namespace

json::Object limits_document(const policy::Limits& limits)
{
    json::Object out;
    if (limits.memory) {
        out["Memory"] = limits.memory->count;
        out["MemorySwap"] = limits.memory->count; // no swap on top
    }
    if (limits.cpus) out["NanoCpus"] = std::llround(*limits.cpus * 1e9);
    if (limits.pids) out["PidsLimit"] = *limits.pids;
    return out;
}

ImageDefaults parse_defaults(const json::Value& config)
{
    ImageDefaults out;
    out.workdir = text_at(config, "WorkingDir");
    out.user = text_at(config, "User");
    const auto* object = config.if_object();
    const auto* env = object == nullptr ? nullptr : object->if_contains("Env");
    if (env != nullptr && env->is_array())
        for (const auto& one : env->get_array()) {
            const auto* text = one.if_string();
            if (text == nullptr) continue;
            const std::string pair(*text);
            const auto equals = pair.find('=');
            if (equals != std::string::npos && equals > 0)
                out.env[pair.substr(0, equals)] = pair.substr(equals + 1);
        }
    return out;
}

Status check_engine_id(std::string_view id)
{
    constexpr std::size_t longest = 128;
    if (!id.empty() && id.size() <= longest &&
        id.find_first_not_of("0123456789abcdef") == std::string_view::npos)
        return {};
    return fail(Code::Unavailable, "the engine gives the id '{}', which is none", printable(id, 80));
}

Result<Container> parse_container(const json::Value& document)
{
    const json::Reader at(document);
    Container out;
    BERTH_TRY(const auto id, at.at("Id"));
    BERTH_TRY(out.id, id.string());
    BERTH_CHECK(check_engine_id(out.id));
    out.name = text_at(document, "Name");
    if (out.name.starts_with('/')) out.name.erase(0, 1);
    BERTH_TRY(const auto state, at.at("State"));
    out.status = printable(text_at(state.value(), "Status"), 40);
    out.running = flag_at(state.value(), "Running");
    out.paused = flag_at(state.value(), "Paused");
    BERTH_TRY(const auto pid, state.find("Pid"));
    if (pid) {
        BERTH_TRY(const auto number, pid->integer(0, 1 << 30));
        out.pid = static_cast<int>(number);
    }
    out.image = text_at(document, "Image");
    BERTH_TRY(const auto host, at.find("HostConfig"));
    if (host) {
        out.network = text_at(host->value(), "NetworkMode");
        out.limits = limits_at(host->value());
        const auto options = host->find("SecurityOpt");
        if (options && *options)
            if (const auto words = (*options)->strings())
                for (const auto& word : *words)
                    if (word == "no-new-privileges" || word == "no-new-privileges:true" ||
                        word == "no-new-privileges=true")
                        out.no_new_privileges = true;
    }
    BERTH_TRY(const auto driver, at.find("GraphDriver"));
    if (driver) {
        const auto data = driver->find("Data");
        if (data && *data) out.upper = text_at((*data)->value(), "UpperDir");
    }
    BERTH_TRY(const auto mounts, at.find("Mounts"));
    if (mounts) {
        BERTH_TRY(const auto all, mounts->array());
        for (const auto& mount : all) {
            const auto target = text_at(mount.value(), "Destination");
            if (text_at(mount.value(), "Type") == "volume") out.volumes.push_back(target);
            out.mounts.push_back(
                {.source = text_at(mount.value(), "Source"),
                 .target = target,
                 .mode = flag_at(mount.value(), "RW") ? Mount::Mode::ReadWrite : Mount::Mode::ReadOnly});
        }
    }
    BERTH_TRY(const auto config, at.at("Config"));
    out.image_name = text_at(config.value(), "Image");
    out.labels = labels_at(config.value(), "Labels");
    out.defaults = parse_defaults(config.value());
    return out;
}

Result<std::vector<Container>> parse_containers(const json::Value& document)
{
    BERTH_TRY(const auto all, json::Reader(document).array());
    std::vector<Container> out;
    for (const auto& one : all) {
        Container& container = out.emplace_back();
        BERTH_TRY(const auto id, one.at("Id"));
        BERTH_TRY(container.id, id.string());
        BERTH_CHECK(check_engine_id(container.id));
        container.status = printable(text_at(one.value(), "State"), 40);
        container.running = container.status == "running" || container.status == "paused";
        container.paused = container.status == "paused";
        container.image_name = text_at(one.value(), "Image");
        container.labels = labels_at(one.value(), "Labels");
        BERTH_TRY(const auto created, one.find("Created"));
        if (created) {
            BERTH_TRY(container.created, created->integer(0, kMany));
        }
        BERTH_TRY(const auto names, one.find("Names"));
        if (!names) continue;
        BERTH_TRY(const auto all_names, names->strings());
        if (!all_names.empty()) container.name = all_names.front();
        if (container.name.starts_with('/')) container.name.erase(0, 1);
    }
    return out;
}

std::map<std::string, std::string> labels_of(const SandboxSpec& spec, const InstanceLabels& labels,
                                             const std::string& image)
{
    std::map<std::string, std::string> out;
    for (const auto& [name, value] : spec.labels)
        if (!name.starts_with("berth.") && !name.starts_with("exo.")) out[name] = value;
    out[label::kId] = spec.id;
    out[label::kKey] = labels.key;
    out[label::kSpecHash] = labels.spec_hash;
    out[label::kOwner] = labels.owner;
    out[label::kCreated] = std::to_string(labels.created.time_since_epoch().count());
    out[label::kGeneration] = std::to_string(labels.generation);
    auto exo = exo::spec_of(spec, image);
    if (labels.key.empty() || !exo) return out;
    // Its container backend hashes durable file systems as mounts too, by the host's own paths.
    for (const auto& volume : spec.volumes)
        exo->mounts.push_back(
            {.host = volume.source, .guest = volume.target, .writable = volume.writable, .internal = true});
    out[label::kExoKey] = labels.key;
    out[label::kExoHash] = exo::spec_hash(*exo);
    out[label::kExoPid] = "1"; // exo takes a sandbox away whose owner is dead, and a command ends soon
    return out;
}

std::optional<std::pair<SandboxHandle, InstanceLabels>>
identity_of(const std::map<std::string, std::string>& labels)
{
    const auto get = [&](const char* name) {
        const auto at = labels.find(name);
        return at == labels.end() ? std::string{} : at->second;
    };
    InstanceLabels out;
    const auto id = get(label::kId);
    if (!is_id(id, "sbx_")) return std::nullopt;
    out.key = get(label::kKey);
    out.spec_hash = get(label::kSpecHash);
    out.exo_hash = get(label::kExoHash);
    out.owner = get(label::kOwner);
    out.created =
        WallTime(std::chrono::nanoseconds(parse_int(get(label::kCreated), 0, kMany, "time").value_or(0)));
    out.generation =
        static_cast<std::uint64_t>(parse_int(get(label::kGeneration), 1, kMany, "generation").value_or(1));
    return std::pair(SandboxHandle{.sandbox = id, .native = keeping::native_name(id, out.generation)}, out);
}

std::string container_name(const std::string& native) { return "berth-" + native; }

json::Object container_document(const ContainerWish& wish)
{
    const auto& spec = wish.spec;
    json::Object out;
    out["Image"] = wish.image;
    out["Hostname"] = spec.policy.network == policy::Network::Host ? std::string{} : host_name(spec);
    out["User"] = "0:0"; // the keeper; commands get theirs from it
    out["WorkingDir"] = "/";
    out["Entrypoint"] = strings({std::string(kInside) + "/keeper"});
    const std::string place = wish.shown.empty() ? kRunInside : kInside;
    out["Cmd"] = strings({"c", place + "/sock", std::to_string(wish.owner)});
    out["Tty"] = false;
    out["Healthcheck"] = json::Object{{"Test", strings({"NONE"})}};
    out["StopSignal"] = "SIGTERM";
    out["StopTimeout"] = 10; // without it Podman kills at once
    json::Object labels;
    for (const auto& [name, value] : labels_of(spec, wish.labels, wish.image_name)) labels[name] = value;
    out["Labels"] = std::move(labels);
    out["HostConfig"] = host_config(wish);
    return out;
}

} // namespace berth::docker
