// Protects whoever unpacks an archive from what an enemy wrote into it. Everything is decided by names and
// kinds alone; what is on disk already is the unpacker's business (archive_writer).
#include "image/archive_check.hpp"

#include <algorithm>
#include <limits>

#include "base/strings.hpp"

namespace berth::image {

namespace {

using Kind = ArchiveMember::Kind;

constexpr std::size_t kLongestName = 255;
constexpr std::size_t kLongestPath = 4095;
constexpr std::size_t kDeepest = 250;                  // TreeReader must be able to read it again
constexpr std::size_t kDeepestTree = 256;              // what TreeReader reads
constexpr std::uint64_t kMostNames = 64u << 20;        // they are held in memory
constexpr std::uint64_t kMostNamesOfTree = 256u << 20; // some millions of files
constexpr std::uint64_t kHeaders = 4096;               // of one member, on average

std::unexpected<Error> refuse(std::string_view reason, const std::string& member)
{
    return fail(Code::Invalid, "archive: {} (member '{}')", reason, printable(member, 200));
}

std::unexpected<Error> over(std::string_view reason, const std::string& member, std::uint64_t limit,
                            std::uint64_t actual)
{
    return fail(Code::Exhausted, "archive: {} (member '{}', limit {}, actual {})", reason,
                printable(member, 200), limit, actual);
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

Result<Kind> kind_of(const TarEntry& entry)
{
    switch (entry.kind) {
    case TarEntry::Kind::File: return Kind::File;
    case TarEntry::Kind::Directory: return Kind::Directory;
    case TarEntry::Kind::Symlink: return Kind::Link;
    case TarEntry::Kind::Hardlink: return refuse("hard link", entry.name);
    case TarEntry::Kind::Fifo: return refuse("pipe", entry.name);
    case TarEntry::Kind::Socket: return refuse("socket", entry.name);
    case TarEntry::Kind::CharDevice:
    case TarEntry::Kind::BlockDevice: return refuse("device", entry.name);
    case TarEntry::Kind::Other: break;
    }
    return refuse("unknown kind of member", entry.name);
}

} // namespace

bool leads_out(std::string_view path, std::string_view target)
{
    if (target.starts_with('/')) return true;
    // Lexically, from the directory of the link: what lies on the way may be a link too, but a member
    // below a link is refused, so within the archive a name is what it seems.
    auto depth = std::ranges::count(path, '/');
    for (const auto& part : split(target, '/')) {
        if (part.empty() || part == ".") continue;
        depth += part == ".." ? -1 : 1;
        if (depth < 0) return true;
    }
    return false;
}

Bytes stream_limit(const ArchiveLimits& limits)
{
    constexpr auto most = std::numeric_limits<std::uint64_t>::max() / 2;
    const auto headers = std::min(limits.members, most / kHeaders) * kHeaders;
    return Bytes{std::min(limits.extracted.count, most) + std::min(headers, most / 2) + (1u << 20)};
}

Result<std::string> ArchiveRules::path_of(const TarEntry& entry)
{
    const std::string& name = entry.name;
    if (name.empty()) return refuse("no name", name);
    if (name.front() == '/') return refuse("absolute name", name);
    const bool any = limits_.names == MemberNames::Any;
    const std::size_t deepest = any ? kDeepestTree : kDeepest;
    if (!any && name.find('\\') != std::string::npos) return refuse("backslash in the name", name);
    std::string path;
    std::size_t depth = 0;
    for (const auto& part : split(name, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") return refuse("'..' in the name", name);
        if (part.size() > kLongestName) return over("name too long", name, kLongestName, part.size());
        if (!any && path.empty() && part.size() >= 2 && part[1] == ':' && is_letter(part[0]))
            return refuse("drive letter in the name", name);
        if (!path.empty()) path += '/';
        path += part;
        if (++depth > deepest) return over("too deep", name, deepest, depth);
    }
    if (path.size() > kLongestPath) return over("path too long", name, kLongestPath, path.size());
    return path;
}

/// The path among those before: each of its parents a directory or not there, nothing below it unless it
/// is one.
Status ArchiveRules::enrol(const ArchiveMember& member, const std::string& name)
{
    const std::string& path = member.path;
    for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const auto above = members_.find(path.substr(0, slash));
        if (above == members_.end() || above->second == Kind::Directory) continue;
        return refuse(above->second == Kind::Link ? "below a link" : "below a file", name);
    }
    const auto [at, fresh] = members_.try_emplace(path, member.kind);
    if (!fresh && (at->second != Kind::Directory || member.kind != Kind::Directory))
        return refuse("the same name twice", name);
    if (member.kind != Kind::Directory) {
        const auto below = members_.lower_bound(path + "/");
        if (below != members_.end() && below->first.starts_with(path + "/"))
            return refuse("other members lie below it", name);
    }
    return {};
}

Result<std::optional<ArchiveMember>> ArchiveRules::admit(const TarEntry& entry)
{
    if (++count_ > limits_.members) return over("too many members", entry.name, limits_.members, count_);
    names_ += entry.name.size();
    const auto most = limits_.names == MemberNames::Any ? kMostNamesOfTree : kMostNames;
    if (names_ > most) return over("names too large", entry.name, most, names_);
    extracted_ += std::exchange(present_, 0);

    ArchiveMember member;
    BERTH_TRY(member.path, path_of(entry));
    BERTH_TRY(member.kind, kind_of(entry));
    if (member.path.empty()) {
        if (member.kind != Kind::Directory) return refuse("the root is not a directory", entry.name);
        return member;
    }
    BERTH_CHECK(enrol(member, entry.name));
    if (member.kind == Kind::File)
        BERTH_CHECK(grow(entry, static_cast<std::uint64_t>(std::max<std::int64_t>(entry.size, 0))));
    if (member.kind != Kind::Link) return member;
    if (entry.target.empty() || entry.target.size() > kLongestPath)
        return refuse("link without a possible target", entry.name);
    if (limits_.links == ExternalLinks::Keep || !leads_out(member.path, entry.target)) return member;
    if (limits_.links == ExternalLinks::Refuse) return refuse("link that leads out of the tree", entry.name);
    dropped_.push_back(member.path);
    return std::optional<ArchiveMember>{};
}

std::map<std::string, ArchiveMember::Kind> ArchiveRules::members() &&
{
    for (const auto& path : dropped_) members_.erase(path);
    return std::move(members_);
}

Status ArchiveRules::grow(const TarEntry& entry, std::uint64_t end)
{
    present_ = std::max(present_, end);
    const auto limit = limits_.extracted.count;
    if (present_ > limit || extracted_ > limit - present_)
        return over("too large when extracted", entry.name, limit,
                    extracted_ > ~present_ ? ~std::uint64_t{0} : extracted_ + present_);
    return {};
}

Result<std::map<std::string, ArchiveMember::Kind>> check_archive(int fd, const ArchiveLimits& limits)
{
    BERTH_TRY(auto reader, TarReader::open(fd, stream_limit(limits)));
    ArchiveRules rules(limits);
    for (TarEntry entry;;) {
        BERTH_TRY(const bool more, reader.next(entry));
        if (!more) return std::move(rules).members();
        BERTH_CHECK(rules.admit(entry));
        if (entry.kind != TarEntry::Kind::File) continue;
        for (;;) {
            BERTH_TRY(const auto block, reader.block());
            if (!block) break;
            BERTH_CHECK(rules.grow(entry, static_cast<std::uint64_t>(block->offset) + block->bytes.size()));
        }
    }
}

} // namespace berth::image
