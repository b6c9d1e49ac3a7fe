// The description of a snapshot as this backend reads it back. It decides which directories of the host
// become part of a root file system, so nothing in it is believed: a layer is named by an id that cannot
// lead elsewhere, and everything else only ever compared.

#include "backend/local/layer_manifest.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

constexpr const char* kFile = "manifest";
constexpr const char* kNewFile = "manifest.new";
constexpr std::int64_t kFormat = 1;
constexpr std::size_t kMaxBytes = 64u << 10;
constexpr std::int64_t kMany = std::int64_t{1} << 62;

Result<std::string> read_text(const json::Reader& at, std::string_view name)
{
    BERTH_TRY(const auto member, at.at(name));
    return member.string();
}

Result<std::string> read_id(const json::Reader& at, std::string_view name, std::string_view prefix)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(auto text, member.string());
    if (!is_id(text, prefix)) return member.refuse("'{}' is not an id '{}…'", printable(text, 60), prefix);
    return text;
}

Result<std::int64_t> read_number(const json::Reader& at, std::string_view name)
{
    BERTH_TRY(const auto member, at.at(name));
    return member.integer(0, kMany);
}

Result<Stack> read_stack(const json::Reader& at)
{
    BERTH_TRY(const auto member, at.at("stack"));
    BERTH_TRY(auto stack, member.strings());
    if (stack.empty() || stack.size() > kMaxStack)
        return member.refuse("{} layers; a snapshot has 1 to {}", stack.size(), kMaxStack);
    for (const auto& id : stack)
        if (!is_layer_id(id)) return member.refuse("'{}' is not the id of a layer", printable(id, 60));
    return stack;
}

/// "host" of "host", "tar" of "tar:/a/root.tar".
std::string_view kind_in(std::string_view root) { return root.substr(0, root.find(':')); }

Result<LayerManifest> read_document(const json::Reader& at)
{
    BERTH_CHECK(at.only(
        {"format", "kind", "snapshot", "sandbox", "created", "template", "stack", "live_copy", "bytes"}));
    BERTH_TRY(const auto format, read_number(at, "format"));
    if (format != kFormat)
        return fail(Code::Unsupported, "format {} of a snapshot; this program knows {}", format, kFormat);
    BERTH_TRY(const auto kind, read_text(at, "kind"));
    if (kind != snapshot_kind::kLayer)
        return fail(Code::Invalid, "a snapshot of kind '{}', not {}", printable(kind, 60),
                    snapshot_kind::kLayer);
    LayerManifest out;
    BERTH_TRY(out.snapshot, read_id(at, "snapshot", "snap_"));
    BERTH_TRY(out.sandbox, read_id(at, "sandbox", "sbx_"));
    BERTH_TRY(const auto created, read_number(at, "created"));
    out.created = WallTime(std::chrono::nanoseconds(created));
    BERTH_TRY(const auto root, at.at("template"));
    BERTH_CHECK(root.only({"root", "identity"}));
    BERTH_TRY(out.root, read_text(root, "root"));
    constexpr std::string_view kinds[] = {"host", "dir", "tar", "oci", "image"}; // the last by a move
    if (std::ranges::find(kinds, kind_in(out.root)) == std::end(kinds))
        return root.refuse("'{}' is no template that layers stand on", printable(out.root, 60));
    BERTH_TRY(out.identity, read_text(root, "identity"));
    BERTH_TRY(out.stack, read_stack(at));
    BERTH_TRY(const auto live, at.at("live_copy"));
    BERTH_TRY(out.live_copy, live.boolean());
    BERTH_TRY(const auto bytes, read_number(at, "bytes"));
    out.bytes = static_cast<std::uint64_t>(bytes);
    return out;
}

Result<UniqueFd> open_directory(const std::string& directory)
{
    if (directory.empty() || directory.front() != '/')
        return fail(Code::Invalid, "'{}' is not the directory of a snapshot", printable(directory, 200));
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening the snapshot {}", directory);
    return fd;
}

} // namespace

Result<std::string> write_manifest(const std::string& directory, const LayerManifest& manifest, int layers)
{
    json::Object root;
    root["root"] = manifest.root;
    root["identity"] = manifest.identity;
    json::Array stack;
    for (const auto& id : manifest.stack) stack.emplace_back(id);
    json::Object out;
    out["format"] = kFormat;
    out["kind"] = snapshot_kind::kLayer;
    out["snapshot"] = manifest.snapshot;
    out["sandbox"] = manifest.sandbox;
    out["created"] = manifest.created.time_since_epoch().count();
    out["template"] = std::move(root);
    out["stack"] = std::move(stack);
    out["live_copy"] = manifest.live_copy;
    out["bytes"] = manifest.bytes;
    std::string text = json::dump(out);
    BERTH_TRY(const auto at, open_directory(directory));
    {
        const UniqueFd file(
            ::openat(at.get(), kNewFile, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file) return fail_errno("writing the manifest in {}", directory);
        BERTH_CHECK(write_all(file.get(), text));
    }
    // One sync for the layers and the text, where they share a file system.
    struct stat ours{}, theirs{};
    if (::fstat(at.get(), &ours) != 0 || ::fstat(layers, &theirs) != 0)
        return fail_errno("looking at the snapshot {}", directory);
    if (::syncfs(layers) != 0 || (ours.st_dev != theirs.st_dev && ::syncfs(at.get()) != 0))
        return fail_errno("syncing the snapshot {}", directory);
    hooks::kill_point("snapshot: synced");
    if (::renameat(at.get(), kNewFile, at.get(), kFile) != 0 || ::fsync(at.get()) != 0)
        return fail_errno("naming the manifest in {}", directory);
    return text;
}

Result<LayerManifest> parse_manifest(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, {.bytes = kMaxBytes, .depth = 8}));
    return read_document(json::Reader(document));
}

Result<LayerManifest> read_manifest(const std::string& directory)
{
    BERTH_TRY(const auto at, open_directory(directory));
    BERTH_TRY(const auto text, read_file_at(at.get(), kFile, Bytes{kMaxBytes}));
    auto read = parse_manifest(text);
    if (!read)
        return std::unexpected(
            std::move(read).error().while_doing(fmt::format("reading the manifest in {}", directory)));
    return read;
}

Status check_template(const LayerManifest& manifest, const Template& root, const RootLayers& layers)
{
    const std::string asked = to_string(root);
    if (kind_in(manifest.root) != kind_in(asked))
        return fail(Code::Conflict, "snapshot {} stands on the template {}, not on {}", manifest.snapshot,
                    printable(manifest.root, 200), asked);
    if (manifest.identity == layers.identity && (!manifest.identity.empty() || manifest.root == asked))
        return {};
    if (root.kind == Template::Kind::Host)
        return fail(
            Code::Conflict,
            "snapshot {} was taken over other programs than the host has now (fingerprint {}, not {}): "
            "its layers may not fit them",
            manifest.snapshot, printable(manifest.identity, 80), layers.identity);
    return fail(Code::Conflict, "snapshot {} stands on {} with other contents ({}, not {})",
                manifest.snapshot, printable(manifest.root, 200), printable(manifest.identity, 80),
                layers.identity);
}

std::unexpected<Error> refuse_kind(std::string_view doing, std::string_view kind,
                                   const std::vector<std::string>& accepted)
{
    return fail(Code::Unsupported, "backend local cannot {} a snapshot of kind '{}'; it knows {}", doing,
                printable(kind, 60), fmt::join(accepted, ", "));
}

} // namespace berth::local
