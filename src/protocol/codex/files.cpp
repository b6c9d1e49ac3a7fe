#include "protocol/codex/files.hpp"

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kMaxWatched = 1024;

std::unexpected<Error> refused(std::string message) { return fail_text(Code::Conflict, std::move(message)); }

Result<std::string> path_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto member, reader.at(name));
    BERTH_TRY(const auto uri, member.string());
    return read_path(uri);
}

Result<bool> flag(const json::Reader& reader, std::string_view name, bool otherwise)
{
    BERTH_TRY(const auto member, reader.find(name));
    return member ? member->boolean() : Result<bool>(otherwise);
}

Result<std::optional<Intent>> sandbox_of(const json::Reader& reader)
{
    BERTH_TRY(const auto member, reader.find("sandbox"));
    if (!member) return std::optional<Intent>{};
    BERTH_TRY(auto intent, read_intent(*member));
    return std::optional<Intent>(std::move(intent));
}

Result<std::string> bytes_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto member, reader.at(name));
    const auto* const text = member.value().if_string();
    if (text == nullptr) return member.refuse("expected a string");
    auto bytes = base64_decode({text->data(), text->size()});
    if (!bytes || text->size() % 4 != 0) return refused(fmt::format("{} is not base64", name));
    return *std::move(bytes);
}

Result<std::string> handle_at(const json::Reader& reader)
{
    BERTH_TRY(const auto member, reader.at("handleId"));
    BERTH_TRY(auto id, member.string());
    if (id.empty() || id.size() > FileLimits::handle_id)
        return refused(fmt::format("a file handle has 1 to {} bytes", FileLimits::handle_id));
    return id;
}

Result<std::int64_t> bound(const json::Reader& reader, std::string_view name, std::int64_t low,
                           std::int64_t high)
{
    BERTH_TRY(const auto member, reader.at(name));
    BERTH_TRY(const auto value, member.integer(0, INT64_MAX));
    if (value < low || value > high)
        return refused(fmt::format("{} is {}: from {} to {}", name, value, low, high));
    return value;
}

Status read_into(const json::Reader& reader, PathParams& out)
{
    BERTH_TRY(out.path, path_at(reader, "path"));
    BERTH_TRY(out.sandbox, sandbox_of(reader));
    BERTH_TRY(out.follow, flag(reader, "followSymlinks", true));
    BERTH_TRY(out.recursive, flag(reader, "recursive", true));
    BERTH_TRY(out.force, flag(reader, "force", true));
    return {};
}

Result<std::uint64_t> offset_at(const json::Reader& reader)
{
    BERTH_TRY(const auto member, reader.at("offset"));
    BERTH_TRY(const auto offset, member.integer(0, INT64_MAX));
    return static_cast<std::uint64_t>(offset);
}

} // namespace

Result<PathParams> read_path_params(const json::Value& params)
{
    PathParams out;
    BERTH_CHECK(read_into(json::Reader(params), out));
    return out;
}

Result<WriteFileParams> read_write_file(const json::Value& params)
{
    const json::Reader reader(params);
    WriteFileParams out;
    BERTH_CHECK(read_into(reader, out));
    BERTH_TRY(out.bytes, bytes_at(reader, "dataBase64"));
    return out;
}

Result<CopyParams> read_copy(const json::Value& params)
{
    const json::Reader reader(params);
    CopyParams out;
    BERTH_TRY(out.from, path_at(reader, "sourcePath"));
    BERTH_TRY(out.to, path_at(reader, "destinationPath"));
    BERTH_TRY(const auto recursive, reader.at("recursive"));
    BERTH_TRY(out.recursive, recursive.boolean());
    BERTH_TRY(out.sandbox, sandbox_of(reader));
    return out;
}

Result<WalkParams> read_walk(const json::Value& params)
{
    const json::Reader reader(params);
    WalkParams out;
    BERTH_TRY(out.path, path_at(reader, "path"));
    BERTH_TRY(out.sandbox, sandbox_of(reader));
    BERTH_TRY(const auto options, reader.at("options"));
    BERTH_TRY(out.max_depth, bound(options, "maxDepth", 0, FileLimits::walk_depth));
    BERTH_TRY(out.max_directories, bound(options, "maxDirectories", 1, FileLimits::walk_directories));
    BERTH_TRY(out.max_entries, bound(options, "maxEntries", 1, FileLimits::walk_entries));
    BERTH_TRY(const auto follow, options.at("followDirectorySymlinks"));
    BERTH_TRY(out.follow_directory_links, follow.boolean());
    BERTH_TRY(out.prune_hidden, flag(options, "pruneHiddenDirectories", false));
    return out;
}

Result<OpenParams> read_open(const json::Value& params)
{
    const json::Reader reader(params);
    OpenParams out;
    BERTH_TRY(out.handle, handle_at(reader));
    BERTH_TRY(out.path, path_at(reader, "path"));
    BERTH_TRY(out.sandbox, sandbox_of(reader));
    BERTH_TRY(const auto mode, reader.find("mode"));
    if (!mode) return out;
    BERTH_TRY(const auto word, mode->string());
    if (word == "replace")
        out.mode = OpenParams::Mode::Replace;
    else if (word != "read")
        return mode->refuse("unknown variant '{}'", printable(word, 60));
    return out;
}

Result<BlockParams> read_read_block(const json::Value& params)
{
    const json::Reader reader(params);
    BlockParams out;
    BERTH_TRY(out.handle, handle_at(reader));
    BERTH_TRY(out.offset, offset_at(reader));
    BERTH_TRY(const auto length, bound(reader, "len", 1, FileLimits::block));
    out.length = static_cast<std::size_t>(length);
    return out;
}

Result<BlockParams> read_write_block(const json::Value& params)
{
    const json::Reader reader(params);
    BlockParams out;
    BERTH_TRY(out.handle, handle_at(reader));
    BERTH_TRY(out.offset, offset_at(reader));
    BERTH_TRY(out.bytes, bytes_at(reader, "chunk"));
    if (out.bytes.empty() || out.bytes.size() > FileLimits::block)
        return refused(fmt::format("a block has 1 to {} bytes", FileLimits::block));
    return out;
}

Result<std::string> read_handle(const json::Value& params) { return handle_at(json::Reader(params)); }

Result<WatchParams> read_watch(const json::Value& params)
{
    const json::Reader reader(params);
    WatchParams out;
    BERTH_TRY(const auto id, reader.at("watchId"));
    BERTH_TRY(out.id, id.integer(INT64_MIN, INT64_MAX));
    BERTH_TRY(const auto missing, reader.at("missing"));
    BERTH_TRY(const auto uris, missing.strings());
    if (uris.size() > kMaxWatched) return missing.refuse("{} paths; at most {}", uris.size(), kMaxWatched);
    for (const auto& uri : uris) {
        BERTH_TRY(auto path, read_path(uri));
        out.missing.push_back(std::move(path));
    }
    BERTH_TRY(out.present, path_at(reader, "present"));
    return out;
}

} // namespace berth::codex
