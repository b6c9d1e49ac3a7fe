#include "backend/local/instance.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "core/spec_json.hpp"
#include "keeping/labels_json.hpp"

namespace berth::local {

namespace {

constexpr const char* kFile = "instance";
constexpr const char* kNewFile = "instance.new";
constexpr const char* kParked = "parked";
constexpr const char* kNobody = "nobody"; ///< never there
constexpr std::int64_t kMany = std::int64_t{1} << 62;

json::Object layers_json(const RootLayers& layers)
{
    json::Object out;
    out["root"] = layers.root;
    out["usr"] = layers.usr;
    out["usr_mask"] = layers.usr_mask;
    out["etc_root"] = layers.etc_root;
    out["identity"] = layers.identity;
    out["devices"] = layers.devices;
    json::Array more;
    for (const auto& root : layers.more_roots) more.emplace_back(root);
    if (!more.empty()) out["more_roots"] = std::move(more);
    if (layers.image) {
        json::Object env;
        for (const auto& [name, value] : layers.image->env) env[name] = value;
        out["image"] = json::Object{
            {"env", std::move(env)}, {"workdir", layers.image->workdir}, {"user", layers.image->user}};
    }
    return out;
}

json::Object groups_json(const sys::GroupPlaces& groups)
{
    json::Object out;
    out["v2"] = groups.v2;
    json::Array v1;
    for (const auto& path : groups.v1) v1.emplace_back(path);
    out["v1"] = std::move(v1);
    return out;
}

Status read_text(const json::Reader& at, std::string_view name, std::string& out)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(out, member.string());
    return {};
}

template <class T>
Status read_number(const json::Reader& at, std::string_view name, std::int64_t high, T& out)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(const auto number, member.integer(0, high));
    out = static_cast<T>(number);
    return {};
}

Status read_flag(const json::Reader& at, std::string_view name, bool& out)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(out, member.boolean());
    return {};
}

Result<image::oci::Defaults> read_image(const json::Reader& at)
{
    image::oci::Defaults out;
    BERTH_CHECK(read_text(at, "workdir", out.workdir));
    BERTH_CHECK(read_text(at, "user", out.user));
    BERTH_TRY(const auto env, at.at("env"));
    BERTH_TRY(const auto members, env.members());
    for (const auto& [name, value] : members) {
        BERTH_TRY(out.env[name], value.string());
    }
    return out;
}

Result<RootLayers> read_layers(const json::Reader& at)
{
    RootLayers out;
    BERTH_CHECK(read_text(at, "root", out.root));
    BERTH_CHECK(read_text(at, "usr", out.usr));
    BERTH_CHECK(read_text(at, "usr_mask", out.usr_mask));
    BERTH_CHECK(read_text(at, "etc_root", out.etc_root));
    BERTH_CHECK(read_text(at, "identity", out.identity));
    BERTH_CHECK(read_flag(at, "devices", out.devices));
    BERTH_TRY(const auto more, at.find("more_roots"));
    if (more) {
        BERTH_TRY(out.more_roots, more->strings());
    }
    BERTH_TRY(const auto image, at.find("image"));
    if (image) {
        BERTH_TRY(out.image, read_image(*image));
    }
    return out;
}

Status read_time(const json::Reader& at, std::string_view name, WallTime& out)
{
    std::int64_t since = 0;
    BERTH_CHECK(read_number(at, name, kMany, since));
    out = WallTime(std::chrono::nanoseconds(since));
    return {};
}

Result<sys::GroupPlaces> read_groups(const json::Reader& at)
{
    sys::GroupPlaces out;
    BERTH_CHECK(read_text(at, "v2", out.v2));
    BERTH_TRY(const auto v1, at.at("v1"));
    BERTH_TRY(const auto paths, v1.strings());
    if (paths.size() != out.v1.size()) return v1.refuse("{} hierarchies", paths.size());
    std::ranges::copy(paths, out.v1.begin());
    return out;
}

Result<Instance> read_document(const json::Reader& at)
{
    Instance out;
    BERTH_TRY(const auto spec, at.at("spec"));
    BERTH_TRY(out.spec, read_spec(spec));
    BERTH_TRY(const auto labels, at.at("labels"));
    BERTH_TRY(out.labels, keeping::read_labels(labels));
    BERTH_CHECK(read_number(at, "pid", 1 << 30, out.keeper.pid));
    BERTH_CHECK(read_number(at, "start", kMany, out.keeper.start_time));
    BERTH_CHECK(read_number(at, "pid_namespace", kMany, out.keeper.pid_namespace));
    BERTH_CHECK(read_text(at, "boot", out.boot));
    BERTH_CHECK(read_number(at, "ids", 2, out.mode));
    BERTH_CHECK(read_number(at, "network", 2, out.net));
    BERTH_TRY(const auto slot, at.find("slot"));
    if (slot) {
        BERTH_TRY(const auto number, slot->integer(0, sys::IdRange::kSlots - 1));
        out.slot = static_cast<unsigned>(number);
    }
    BERTH_TRY(const auto layers, at.at("layers"));
    BERTH_TRY(out.layers, read_layers(layers));
    out.layers.kind = out.spec.root.kind;
    BERTH_TRY(const auto groups, at.at("groups"));
    BERTH_TRY(out.groups, read_groups(groups));
    BERTH_TRY(out.pins, keeping::read_pins(at, out.spec, out.boot == boot_id()));
    BERTH_TRY(const auto stack, at.at("stack"));
    BERTH_TRY(out.stack, stack.strings());
    BERTH_CHECK(read_text(at, "freezing", out.freezing));
    BERTH_CHECK(read_flag(at, "in_memory", out.in_memory));
    BERTH_CHECK(read_flag(at, "stopped", out.stopped));
    BERTH_CHECK(read_time(at, "synced", out.synced));
    BERTH_TRY(const auto unsynced, at.find("unsynced_since"));
    if (unsynced) BERTH_CHECK(read_time(at, "unsynced_since", out.unsynced_since.emplace()));
    return out;
}

} // namespace

std::string boot_id()
{
    std::string id = read_file("/proc/sys/kernel/random/boot_id").value_or("");
    while (!id.empty() && id.back() == '\n') id.pop_back();
    return id;
}

namespace {

json::Object document_of(const Instance& instance)
{
    json::Object out;
    out["spec"] = to_json(instance.spec);
    out["labels"] = keeping::to_json(instance.labels);
    out["pid"] = instance.keeper.pid;
    out["start"] = instance.keeper.start_time;
    out["pid_namespace"] = instance.keeper.pid_namespace;
    out["boot"] = instance.boot;
    out["ids"] = static_cast<int>(instance.mode);
    out["network"] = static_cast<int>(instance.net);
    if (instance.slot) out["slot"] = *instance.slot;
    out["layers"] = layers_json(instance.layers);
    if (!instance.pins.empty()) out["pins"] = keeping::to_json(instance.pins);
    out["groups"] = groups_json(instance.groups);
    json::Array stack;
    for (const auto& layer : instance.stack) stack.emplace_back(layer);
    out["stack"] = std::move(stack);
    out["freezing"] = instance.freezing;
    out["in_memory"] = instance.in_memory;
    out["stopped"] = instance.stopped;
    out["synced"] = instance.synced.time_since_epoch().count();
    if (instance.unsynced_since) out["unsynced_since"] = instance.unsynced_since->time_since_epoch().count();
    return out;
}

Status write_soon(int directory, const char* name, const Instance& instance)
{
    const UniqueFd file(
        ::openat(directory, kNewFile, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("recording the instance");
    BERTH_CHECK(write_all(file.get(), json::dump(document_of(instance))));
    // Begins the writing without waiting for it: a machine that goes down later than the next commit finds a
    // record, not an empty file.
    ::sync_file_range(file.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    if (::renameat(directory, kNewFile, directory, name) != 0) return fail_errno("recording the instance");
    return {};
}

Result<Instance> read_record(int directory, const char* name)
{
    BERTH_TRY(const auto text, read_file_at(directory, name, 16_MiB));
    if (text.empty() && name == kParked) return fail(Code::NotFound, "it is being parked");
    BERTH_TRY(const auto document, json::parse(text, {.bytes = 16u << 20}));
    auto read = read_document(json::Reader(document));
    if (!read) return std::unexpected(std::move(read).error().while_doing("reading the record of a sandbox"));
    return read;
}

bool has(int directory, const char* name) { return ::faccessat(directory, name, F_OK, 0) == 0; }

} // namespace

Status write_instance(int directory, const Instance& instance, Durable durable)
{
    if (durable == Durable::No) return write_soon(directory, kFile, instance);
    return replace_file_at(directory, kFile, json::dump(document_of(instance)));
}

Result<Instance> read_instance(int directory) { return read_record(directory, kFile); }

Status mark_parked(int directory)
{
    const UniqueFd file(
        ::openat(directory, kParked, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file || ::symlinkat(kNobody, directory, kFile) != 0)
        return fail_errno("marking a sandbox as parked");
    return {};
}

Result<UniqueFd> open_unclaimed(int directory)
{
    UniqueFd link(::openat(directory, kFile, O_PATH | O_CLOEXEC | O_NOFOLLOW));
    if (!link) return fail_errno("opening what a claim replaces");
    return link;
}

Status write_parked(int directory, const Instance& instance)
{
    BERTH_CHECK(write_soon(directory, kParked, instance));
    // What will be written when it is claimed has its file already: making one costs more than all the rest.
    const UniqueFd ahead(::openat(directory, kNewFile, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!ahead) return fail_errno("making the record's file ahead");
    return {};
}

Result<Instance> read_parked(int directory) { return read_record(directory, kParked); }

bool is_parked(int directory) { return has(directory, kParked) && !has(directory, kFile); }

} // namespace berth::local
