#include "backend/e2b/snapshot.hpp"

#include <fcntl.h>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

constexpr const char* kFile = "e2b_snapshot.json";

Result<UniqueFd> open_directory(const std::string& path)
{
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", path);
    return directory;
}

Result<std::string> read_name(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    BERTH_TRY(const auto at, json::Reader(document).at("snapshot_id"));
    BERTH_TRY(auto name, at.string());
    if (name.empty()) return fail(Code::Invalid, "a snapshot without a name");
    return name;
}

SnapshotTaken taken(const std::string& document)
{
    SnapshotTaken out;
    out.kind = kSnapshot;
    out.bytes = document.size();
    out.sha256 = sha256_hex(document);
    out.file = kFile;
    out.live_copy = true;
    return out;
}

} // namespace

Result<SnapshotTaken> take_snapshot(Cloud& cloud, const std::string& id, const SnapshotRequest& request)
{
    if (!request.kind.empty() && request.kind != kSnapshot)
        return fail(Code::Unsupported, "backend e2b cannot take a snapshot of kind '{}'; it knows {}",
                    printable(request.kind, 60), kSnapshot);
    BERTH_TRY(const auto directory, open_directory(request.directory));
    if (const auto before = read_file_at(directory.get(), kFile); before && read_name(*before))
        return taken(*before);
    const auto begun = system_clock().steady();
    // Named by us: one whose answer was lost is found, and removed, by its name.
    auto made = cloud.api().snapshot(id, request.id);
    if (!made && made.error().code == Code::Conflict) {
        // A cloud that takes them of running ones alone.
        BERTH_TRY([[maybe_unused]] const auto woken, cloud.api().connect(id));
        made = cloud.api().snapshot(id, request.id);
        auto stopped = cloud.api().pause(id, false);
        cloud.forget(id);
        if (made && !stopped) return std::unexpected(std::move(stopped).error());
    }
    if (!made) return std::unexpected(std::move(made).error());
    hooks::kill_point("e2b.snapshot.taken");
    json::Object document;
    document["snapshot_id"] = *made;
    document["base_template"] = cloud.config().template_id;
    const auto text = json::dump(document);
    BERTH_CHECK(replace_file_at(directory.get(), kFile, text));
    auto out = taken(text);
    out.elapsed = system_clock().steady() - begun;
    return out;
}

Result<std::string> snapshot_template(const SnapshotSource& from)
{
    if (from.kind != kSnapshot)
        return fail(Code::Unsupported, "backend e2b cannot start from a snapshot of kind '{}'; it knows {}",
                    printable(from.kind, 60), kSnapshot);
    BERTH_TRY(const auto directory, open_directory(from.directory));
    BERTH_TRY(const auto text, read_file_at(directory.get(), kFile));
    auto name = read_name(text);
    if (!name) return std::unexpected(std::move(name).error().while_doing("reading snapshot " + from.id));
    return name;
}

Status remove_snapshot(Cloud& cloud, const SnapshotSource& snapshot)
{
    const auto name = snapshot_template(snapshot);
    return cloud.api().remove_template(name ? *name : snapshot.id);
}

} // namespace berth::e2b_client
