#include "server/e2b/entry_info.hpp"

#include <sys/stat.h>

#include <ranges>

#include <boost/asio/this_coro.hpp>

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

std::map<std::uint32_t, std::string> names_in(const std::string& text)
{
    std::map<std::uint32_t, std::string> out;
    for (const auto& line : split(text, '\n')) {
        const auto fields = split(line, ':');
        if (fields.size() < 3) continue;
        if (const auto id = parse_int(fields[2], 0, UINT32_MAX, "id"))
            out.try_emplace(static_cast<std::uint32_t>(*id), fields[0]);
    }
    return out;
}

/// Names of the accounts every template has, else those of the file, else the number.
Task<std::string> name_of(const EnvdCall& call, std::string file, std::uint32_t id)
{
    if (id == 0) co_return "root";
    if (id == 1000) co_return "user";
    auto known = call.names.find(file);
    if (known == call.names.end()) {
        const auto text =
            co_await call.backend.read_file(call.handle, {.path = file, .user = {}}, kAccountsLimit);
        known = call.names.insert_or_assign(file, text ? names_in(*text) : names_in({})).first;
    }
    const auto found = known->second.find(id);
    co_return found == known->second.end() ? std::to_string(id) : found->second;
}

std::string_view letters(FileEntry::Kind kind)
{
    switch (kind) {
    case FileEntry::Kind::Regular: return "-";
    case FileEntry::Kind::Directory: return "d";
    case FileEntry::Kind::Symlink: return "L";
    case FileEntry::Kind::Other: return "?";
    }
    return "?";
}

/// As Go writes them: a character device is a device, too.
std::string_view letters(unsigned type)
{
    switch (type) {
    case S_IFIFO: return "p";
    case S_IFSOCK: return "S";
    case S_IFCHR: return "Dc";
    case S_IFBLK: return "D";
    default: return "?";
    }
}

FileType type_of(FileEntry::Kind kind)
{
    if (kind == FileEntry::Kind::Regular) return FileType::File;
    if (kind == FileEntry::Kind::Directory) return FileType::Directory;
    return FileType::Unspecified;
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

/// Puts the parts of a path before those that are left to walk, of which the next is the last.
void put_before(std::vector<std::string>& left, std::string_view path)
{
    for (auto& part : split(path, '/') | std::views::reverse)
        if (!part.empty() && part != ".") left.push_back(std::move(part));
}

/// Where a symlink leads, with no link left on the way; the path itself when that has no end. Part by part:
/// what ".." means is known only where the links before it have been followed.
Task<std::string> target_of(const EnvdCall& call, std::string path, std::string user)
{
    constexpr int most = 40; // as the kernel
    std::vector<std::string> walked, left;
    put_before(left, path);
    for (int links = 0; !left.empty();) {
        auto part = std::move(left.back());
        left.pop_back();
        if (part == "..") {
            if (!walked.empty()) walked.pop_back();
            continue;
        }
        walked.push_back(std::move(part));
        const auto there = co_await call.backend.stat_file(
            call.handle, {.path = fmt::format("/{}", fmt::join(walked, "/")), .user = user, .follow = false});
        if (!there) co_return path;
        if (there->kind != FileEntry::Kind::Symlink) continue;
        if (++links > most) co_return path;
        walked.pop_back();
        if (there->target.starts_with('/')) walked.clear();
        put_before(left, there->target);
    }
    co_return fmt::format("/{}", fmt::join(walked, "/"));
}

} // namespace

Task<EntryInfo> entry_info(const EnvdCall& call, std::string path, FileEntry entry, std::string user,
                           std::optional<FileMetadata> metadata)
{
    EntryInfo out;
    out.path = path;
    out.name = path == "/" ? "/" : path.substr(path.rfind('/') + 1);
    out.size = entry.size.count;
    out.mode = entry.mode & 0777;
    std::string_view kind = letters(entry.kind);
    auto* const types = dynamic_cast<FileAttributes*>(&call.backend);
    if (entry.kind == FileEntry::Kind::Other && types != nullptr)
        kind = letters((co_await types->read_type(call.handle, {.path = path, .user = user})).value_or(0));
    out.permissions = permission_text(kind, entry.mode);
    out.modified = entry.modified;
    out.type = type_of(entry.kind);
    out.owner = co_await name_of(call, "/etc/passwd", entry.uid);
    out.group = co_await name_of(call, "/etc/group", entry.gid);
    if (metadata) {
        out.metadata = *std::move(metadata);
    } else if (path != "/") {
        auto found = co_await metadata_in(call, parent_of(path) + "/", {out.name}, user);
        out.metadata = std::move(found[out.name]);
    }
    if (entry.kind != FileEntry::Kind::Symlink) co_return out;
    out.symlink_target = co_await target_of(call, path, user);
    const auto there = co_await call.backend.stat_file(call.handle, {.path = path, .user = user});
    if (there) {
        out.type = type_of(there->kind);
        out.mode = there->mode & 0777;
    }
    co_return out;
}

} // namespace berth::e2b
