#include "backend/local/layer_collect.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "backend/local/instance.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/template_use.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "image/cache_collect.hpp"
#include "keeping/native.hpp"
#include "sys/remove_tree.hpp"
#include "sys/tree_size.hpp"

namespace berth::local {

namespace {

constexpr std::string_view kUnfinished = ".new-";
/// Beside those that are used, templates that were asked for of late stay.
constexpr auto kTemplateAge = std::chrono::days(1);

using Names = std::set<std::string>;

struct Used {
    Names layers;
    Names templates; ///< as the cache of templates names them
};

Result<UniqueFd> open_dir_at(int at, const std::string& name)
{
    UniqueFd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

/// Those the instances stand on, or are about to.
Status add_of_instances(const StateDir& state, Used& used)
{
    BERTH_TRY(const auto all, open_dir_at(state.fd(), "sandbox"));
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& native : names) {
        if (!is_native(native)) continue;
        const auto directory = open_dir_at(all.get(), native);
        if (!directory && directory.error().code == Code::NotFound) continue;
        if (!directory) return std::unexpected(directory.error());
        // First: whoever claims it writes the other.
        auto parked = read_parked(directory->get());
        auto instance = read_instance(directory->get());
        if (!instance && instance.error().code == Code::NotFound) instance = std::move(parked);
        // Never finished: whoever was making it had the lock of the layers, and is gone.
        if (!instance && instance.error().code == Code::NotFound) continue;
        if (!instance)
            return std::unexpected(std::move(instance).error().while_doing("collecting layers: " + native +
                                                                           " may need any of them"));
        used.layers.insert(instance->stack.begin(), instance->stack.end());
        used.layers.insert(instance->freezing);
        for (const auto& name : templates_of(state, instance->layers)) used.templates.insert(name);
    }
    return {};
}

/// True for a document that says it is a snapshot of another kind.
bool is_of_another_kind(const std::string& path)
{
    const auto text = read_file(path);
    const auto document = text ? json::parse(*text) : Result<json::Value>(fail(Code::NotFound, ""));
    if (!document || !document->is_object()) return false;
    const auto kind = json::Reader(*document).find("kind");
    const auto word = kind && *kind ? (*kind)->string() : Result<std::string>(fail(Code::NotFound, ""));
    return word && *word != snapshot_kind::kLayer;
}

Status add_of_snapshots(const std::string& snapshots, Used& used)
{
    if (snapshots.empty()) return {};
    const UniqueFd all(::open(snapshots.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!all && errno == ENOENT) return {};
    if (!all) return fail_errno("opening the snapshots in {}", snapshots);
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& name : names) {
        struct stat st{};
        if (::fstatat(all.get(), (name + "/manifest").c_str(), &st, 0) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) continue;
            return fail_errno("looking at the snapshot {}/{}", snapshots, name);
        }
        const std::string path = fmt::format("{}/{}", snapshots, name);
        auto manifest = read_manifest(path);
        if (manifest) {
            used.layers.insert(manifest->stack.begin(), manifest->stack.end());
            used.templates.insert("tar-" + manifest->identity); // it can be restored without the archive
        } else if (!is_of_another_kind(path + "/manifest")) {
            return std::unexpected(std::move(manifest).error().while_doing("collecting layers"));
        }
    }
    return {};
}

} // namespace

Result<Collected> collect_layers(const StateDir& state, const std::string& snapshots, bool dry_run)
{
    Collected out;
    BERTH_TRY(const auto trash, open_dir_at(state.fd(), "trash"));
    {
        BERTH_TRY(const auto alone, lock_layers(state, Use::Alone));
        Used used;
        BERTH_CHECK(add_of_instances(state, used));
        BERTH_CHECK(add_of_snapshots(snapshots, used));
        BERTH_TRY(const auto layers, open_layers(state));
        BERTH_TRY(const auto names, list_names(layers.get()));
        for (const auto& name : names) {
            const bool unfinished = name.starts_with(kUnfinished);
            if (!unfinished && (!is_layer_id(name) || used.layers.contains(name))) continue;
            out.objects.push_back("layer " + name);
            out.bytes += sys::tree_size(layers.get(), name);
            if (dry_run) continue;
            BERTH_CHECK(sys::move_to_trash(layers.get(), name, trash.get()));
            hooks::kill_point("collect: layer in the trash");
        }
        BERTH_TRY(const auto cache, image::Cache::open(state.templates()));
        const image::CacheKeep keep{.used = std::move(used.templates),
                                    .since = system_clock().now() - kTemplateAge,
                                    .trash = trash.get()};
        BERTH_TRY(const auto templates, image::collect_cache(cache, keep, dry_run));
        out.objects.insert(out.objects.end(), templates.objects.begin(), templates.objects.end());
        out.bytes += templates.bytes;
    }
    if (!dry_run) BERTH_CHECK(sys::empty_trash(trash.get()));
    return out;
}

} // namespace berth::local
