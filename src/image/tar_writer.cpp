#include "image/tar_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/result.hpp"

namespace berth::image {

namespace {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kName = 100;
constexpr std::uint64_t kLargestOctal = 077777777777; // eleven digits
constexpr std::uint64_t kLargestId = 07777777;

struct Field {
    std::size_t at;
    std::size_t size;
};
constexpr Field kModeField{100, 8}, kUidField{108, 8}, kGidField{116, 8}, kSizeField{124, 12},
    kTimeField{136, 12}, kSumField{148, 8};
constexpr std::size_t kTypeAt = 156, kLinkAt = 157, kMagicAt = 257;

using Block = std::array<char, kBlock>;

void put(Block& block, Field field, std::uint64_t value)
{
    const std::string digits = fmt::format("{:0{}o}", value, field.size - 1);
    std::memcpy(block.data() + field.at, digits.data(), std::min(digits.size(), field.size - 1));
}

void put(Block& block, std::size_t at, std::string_view text)
{
    std::memcpy(block.data() + at, text.data(), std::min(text.size(), kName));
}

bool plain(std::string_view text)
{
    return text.size() <= kName &&
           std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// "<length> <key>=<value>\n", where the length counts itself.
std::string record(std::string_view key, std::string_view value)
{
    const std::size_t rest = key.size() + value.size() + 3;
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) length = std::to_string(length).size() + rest;
    return fmt::format("{} {}={}\n", length, key, value);
}

struct Raw {
    std::string name;
    char type = '0';
    std::string target;
    unsigned mode = 0;
    std::uint64_t uid = 0, gid = 0, size = 0, seconds = 0;
};

std::string block_of(const Raw& raw)
{
    Block block{};
    put(block, 0, raw.name);
    put(block, kModeField, raw.mode);
    put(block, kUidField, std::min(raw.uid, kLargestId));
    put(block, kGidField, std::min(raw.gid, kLargestId));
    put(block, kSizeField, std::min(raw.size, kLargestOctal));
    put(block, kTimeField, std::min(raw.seconds, kLargestOctal));
    block[kTypeAt] = raw.type;
    put(block, kLinkAt, raw.target);
    std::memcpy(block.data() + kMagicAt, "ustar\00000", 8);
    std::memset(block.data() + kSumField.at, ' ', kSumField.size);
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    std::memcpy(block.data() + kSumField.at, fmt::format("{:06o}", sum).c_str(), 7);
    return {block.data(), block.size()};
}

/// Before the member's own block: what its fields cannot hold.
std::string extended(const std::string& records)
{
    if (records.empty()) return {};
    return block_of({.name = "PaxHeader", .type = 'x', .target = {}, .mode = 0644, .size = records.size()}) +
           records + tar::padding(records.size());
}

char type_of(TarMember::Kind kind)
{
    switch (kind) {
    case TarMember::Kind::File: return '0';
    case TarMember::Kind::Hardlink: return '1';
    case TarMember::Kind::Symlink: return '2';
    case TarMember::Kind::Directory: return '5';
    case TarMember::Kind::Fifo: return '6';
    }
    return '0';
}

std::string member_header(const TarMember& member, std::string records, std::uint64_t stored)
{
    const bool directory = member.kind == TarMember::Kind::Directory;
    const std::string name = directory ? member.name + "/" : member.name;
    const auto seconds = member.modified.tv_sec;
    if (!plain(name)) records += record("path", name);
    if (!plain(member.target)) records += record("linkpath", member.target);
    if (stored > kLargestOctal) records += record("size", std::to_string(stored));
    if (member.uid > kLargestId) records += record("uid", std::to_string(member.uid));
    if (member.gid > kLargestId) records += record("gid", std::to_string(member.gid));
    if (member.modified.tv_nsec != 0 || seconds < 0)
        records += record("mtime", fmt::format("{}.{:09}", seconds, member.modified.tv_nsec));
    for (const auto& [key, value] : member.xattrs) records += record("SCHILY.xattr." + key, value);
    return extended(records) +
           block_of({.name = name.substr(0, kName),
                     .type = type_of(member.kind),
                     .target = member.target.substr(0, kName),
                     .mode = member.mode & 07777,
                     .uid = member.uid,
                     .gid = member.gid,
                     .size = stored,
                     .seconds = static_cast<std::uint64_t>(std::max<time_t>(seconds, 0))});
}

} // namespace

std::string tar::header(const TarMember& member)
{
    return member_header(member, {}, member.kind == TarMember::Kind::File ? member.size : 0);
}

std::string tar::sparse_header(const TarMember& member, const std::vector<TarExtent>& extents)
{
    std::string map = fmt::format("{}\n", extents.size());
    std::uint64_t stored = 0;
    for (const auto& extent : extents) {
        map += fmt::format("{}\n{}\n", extent.offset, extent.size);
        stored += extent.size;
    }
    map += padding(map.size());
    TarMember shown = member;
    const auto slash = member.name.rfind('/');
    const std::string above = slash == std::string::npos ? "." : member.name.substr(0, slash);
    shown.name = fmt::format("{}/GNUSparseFile.0/{}", above,
                             slash == std::string::npos ? member.name : member.name.substr(slash + 1));
    const std::string records = record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") +
                                record("GNU.sparse.name", member.name) +
                                record("GNU.sparse.realsize", std::to_string(member.size));
    return member_header(shown, records, stored + map.size()) + map;
}

std::string tar::padding(std::uint64_t size)
{
    return std::string(static_cast<std::size_t>((kBlock - size % kBlock) % kBlock), '\0');
}

std::string tar::end() { return std::string(2 * kBlock, '\0'); }

} // namespace berth::image
