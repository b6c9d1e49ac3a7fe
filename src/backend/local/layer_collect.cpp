#include "backend/local/layer_collect.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <set>

#include "backend/local/instance.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/shared.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "keeping/native.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

constexpr std::string_view kUnfinished = ".new-";
constexpr std::uint64_t kBlock = 512; // st_blocks, whatever the file system's own are

using Names = std::set<std::string>;

Result<UniqueFd> open_dir_at(int at, const std::string& name)
{
    UniqueFd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

/// Those the instances stand on, or are about to.
Status add_of_instances(const StateDir& state, Names& used)
{
    BERTH_TRY(const auto all, open_dir_at(state.fd(), "sandbox"));
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& native : names) {
        if (!is_native(native)) continue;
        const auto directory = open_dir_at(all.get(), native);
        if (!directory && directory.error().code == Code::NotFound) continue;
        if (!directory) return std::unexpected(directory.error());
        auto instance = read_instance(directory->get());
        // Never finished: whoever was making it had the lock of the layers, and is gone.
        if (!instance && instance.error().code == Code::NotFound) continue;
        if (!instance)
            return std::unexpected(std::move(instance).error().while_doing("collecting layers: " + native +
                                                                           " may need any of them"));
        used.insert(instance->stack.begin(), instance->stack.end());
        used.insert(instance->freezing);
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

Status add_of_snapshots(const std::string& snapshots, Names& used)
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
        if (manifest)
            used.insert(manifest->stack.begin(), manifest->stack.end());
        else if (!is_of_another_kind(path + "/manifest"))
            return std::unexpected(std::move(manifest).error().while_doing("collecting layers"));
    }
    return {};
}

/// What the disk gets back. Links within a layer are counted as often as they are named.
std::uint64_t size_of(int at, const std::string& name, unsigned depth = 0)
{
    struct stat st{};
    if (::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    std::uint64_t bytes = static_cast<std::uint64_t>(st.st_blocks) * kBlock;
    if (!S_ISDIR(st.st_mode) || depth > 200) return bytes;
    const auto dir = open_dir_at(at, name);
    const auto names = dir ? list_names(dir->get()) : Result<std::vector<std::string>>();
    if (!names) return bytes;
    for (const auto& below : *names) bytes += size_of(dir->get(), below, depth + 1);
    return bytes;
}

} // namespace

Result<Collected> collect_layers(const StateDir& state, const std::string& snapshots, bool dry_run)
{
    Collected out;
    BERTH_TRY(const auto trash, open_dir_at(state.fd(), "trash"));
    {
        BERTH_TRY(const auto alone, lock_layers(state, Use::Alone));
        Names used;
        BERTH_CHECK(add_of_instances(state, used));
        BERTH_CHECK(add_of_snapshots(snapshots, used));
        BERTH_TRY(const auto layers, open_layers(state));
        BERTH_TRY(const auto names, list_names(layers.get()));
        for (const auto& name : names) {
            const bool unfinished = name.starts_with(kUnfinished);
            if (!unfinished && (!is_layer_id(name) || used.contains(name))) continue;
            out.objects.push_back("layer " + name);
            out.bytes += size_of(layers.get(), name);
            if (dry_run) continue;
            BERTH_CHECK(sys::move_to_trash(layers.get(), name, trash.get()));
            hooks::kill_point("collect: layer in the trash");
        }
    }
    if (!dry_run) BERTH_CHECK(sys::empty_trash(trash.get()));
    return out;
}

} // namespace berth::local
