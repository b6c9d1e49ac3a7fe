// An archive may be hostile to the sandbox, and a sandbox to whoever reads its archives. The first is judged
// here before anything is sent; the second is only passed on, and its reader must judge it.

#include "scripted/archive.hpp"

#include <unistd.h>

#include <map>
#include <set>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "image/archive_check.hpp"
#include "image/archive_writer.hpp"
#include "image/tar_writer.hpp"
#include "scripted/spool.hpp"

namespace berth::scripted {

namespace {

using MemberKind = image::ArchiveMember::Kind;
using Members = std::map<std::string, MemberKind>;

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kMostThere = std::size_t{64} << 20;

// "$2": whole, "$3": mounts, then what is left out. A file alone is an archive of one member.
constexpr std::string_view kPack = R"(
d "$1"; p=$v; w=$2; m=$3; shift 3
k "$p"
case $t in
f*) cd "${p%/*}/" || { echo 'Permission denied' >&2; exit 9; }
printf '%s\0' "${p##*/}" | tar --format=posix --pax-option=delete=atime,delete=ctime --numeric-owner -h --hard-dereference --null --no-recursion -T - -cf -
[ $? -le 1 ] || exit 9; exit 0 ;;
d*) ;;
*) echo 'Not a regular file' >&2; exit 9 ;;
esac
cd "$p/" || { echo 'Permission denied' >&2; exit 9; }
n=$#
while [ $n -gt 0 ]; do d "$1"; shift; set -- "$@" -path "./$v" -prune -o; n=$((n-1)); done
if [ $w = yes ]; then o='--xattrs --xattrs-include=user.*'; y='-o -type p'; else o=--hard-dereference; y=; fi
[ $m = yes ] && x= || x=-xdev
set -f
find . $x "$@" \( -type f -o -type d -o -type l $y \) -print0 |
tar --format=posix --pax-option=delete=atime,delete=ctime --numeric-owner $o --null --no-recursion -T - -cf -
[ $? -le 1 ] || exit 9
)";

constexpr std::string_view kLeftOut = R"(
d "$1"; p=$v
[ "$2" = yes ] && x= || x=-xdev
cd "$p/" 2>/dev/null && find . $x ! -type f ! -type d ! -type l -printf '%y%P\0' 2>/dev/null
exit 0
)";

// What of the names in the file "$2" is there already: "l" a link, "d" a directory, "f" anything else.
constexpr std::string_view kLook = R"(
d "$1"; p=$v; d "$2"; s=$v
trap 'rm -f -- "$s"' EXIT
k "$p"
case $t in d*) ;; *) echo 'Not a directory' >&2; exit 9;; esac
cd "$p/" || { echo 'Permission denied' >&2; exit 9; }
xargs -0 -a "$s" sh -c 'for f; do if [ -L "./$f" ]; then k=l; elif [ -d "./$f" ]; then k=d; elif [ -e "./$f" ]; then k=f; else continue; fi; printf "%s%s\0" $k "$f"; done' look
)";

constexpr std::string_view kUnpack = R"(
d "$1"; p=$v; d "$2"; s=$v
trap 'rm -f -- "$s"' EXIT
cd "$p/" || { echo 'Permission denied' >&2; exit 9; }
tar --no-same-owner -xpf "$s" || exit 9
)";

/// As a pattern that fits nothing else.
std::string literal(std::string_view path)
{
    std::string out;
    for (const char c : path) {
        if (c == '*' || c == '?' || c == '[' || c == '\\') out += '\\';
        out += c;
    }
    return out;
}

Status check_limits(const ArchiveLimits& limits)
{
    if (limits.input.count > 0 && limits.extracted.count > 0 && limits.members > 0) return {};
    return fail(Code::Invalid, "a limit of an archive must be more than 0");
}

Status rewind(int fd)
{
    if (::lseek(fd, 0, SEEK_SET) != 0) return fail_errno("reading an archive again");
    return {};
}

Result<UniqueFd> spool_all(int directory, const ByteSource& source, Bytes limit)
{
    BERTH_TRY(auto file, nameless_file(directory));
    for (std::uint64_t total = 0;;) {
        BERTH_TRY(const auto piece, source());
        if (piece.empty()) break;
        total += piece.size();
        if (total > limit.count)
            return fail(Code::Exhausted, "archive: too large (limit {}, actual {} or more)", limit.count,
                        total);
        BERTH_CHECK(write_all(file.get(), piece));
    }
    BERTH_CHECK(rewind(file.get()));
    return file;
}

ByteSource source_of(int fd)
{
    return [fd]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        for (;;) {
            const ssize_t n = ::read(fd, piece.data(), piece.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("reading an archive");
            piece.resize(static_cast<std::size_t>(n));
            return piece;
        }
    };
}

/// The same tree as an archive of ours: clean names, tame modes, links last.
Status rewrite(int from, int to, const ArchiveLimits& limits)
{
    BERTH_TRY(auto reader, image::TarReader::open(from, image::stream_limit(limits)));
    image::ArchiveRules rules(limits); // again: it is the same archive, and costs little
    std::vector<image::TarMember> links;
    const std::string zeros(kPiece, '\0');
    for (image::TarEntry entry;;) {
        BERTH_TRY(const bool more, reader.next(entry));
        if (!more) break;
        BERTH_TRY(const auto member, rules.admit(entry));
        if (!member || member->path.empty()) continue;
        image::TarMember out{.name = member->path};
        if (entry.mtime) out.modified = *entry.mtime;
        if (member->kind == MemberKind::Link) {
            out.kind = image::TarMember::Kind::Symlink;
            out.target = entry.target;
            links.push_back(std::move(out));
            continue;
        }
        const bool directory = member->kind == MemberKind::Directory;
        out.kind = directory ? image::TarMember::Kind::Directory : image::TarMember::Kind::File;
        out.mode = image::extracted_mode(entry.mode, directory);
        out.size = directory ? 0 : static_cast<std::uint64_t>(std::max<std::int64_t>(entry.size, 0));
        BERTH_CHECK(write_all(to, image::tar::header(out)));
        if (directory) continue;
        std::uint64_t at = 0;
        const auto fill = [&](std::uint64_t until) -> Status {
            while (at < until) {
                const auto part = std::min<std::uint64_t>(until - at, zeros.size());
                BERTH_CHECK(write_all(to, std::string_view(zeros).substr(0, part)));
                at += part;
            }
            return {};
        };
        for (;;) {
            BERTH_TRY(const auto block, reader.block());
            if (!block) break;
            const auto offset = static_cast<std::uint64_t>(block->offset);
            if (block->offset < 0 || offset < at || offset + block->bytes.size() > out.size)
                return fail(Code::Invalid, "archive: contents beyond their file (member '{}')",
                            printable(member->path, 200));
            BERTH_CHECK(fill(offset));
            BERTH_CHECK(write_all(to, block->bytes));
            at += block->bytes.size();
        }
        BERTH_CHECK(fill(out.size));
        BERTH_CHECK(write_all(to, image::tar::padding(out.size)));
    }
    for (const auto& link : links) BERTH_CHECK(write_all(to, image::tar::header(link)));
    BERTH_CHECK(write_all(to, image::tar::end()));
    return rewind(to);
}

/// Every member, and every directory above one.
std::set<std::string> names_of(const Members& members)
{
    std::set<std::string> out;
    for (const auto& [path, kind] : members)
        for (std::string name = path; !name.empty();) {
            if (!out.insert(name).second) break;
            const auto slash = name.rfind('/');
            name = slash == std::string::npos ? std::string{} : name.substr(0, slash);
        }
    return out;
}

/// Whether all of it can be put where `there` is already.
Status fits(const Members& members, const std::map<std::string, char>& there)
{
    const auto in_the_way = [](std::string_view what, const std::string& path) {
        return fail(Code::Conflict, "archive: {} (member '{}')", what, printable(path, 200));
    };
    for (const auto& [path, kind] : there) {
        const auto member = members.find(path);
        const bool as_directory = member == members.end() || member->second == MemberKind::Directory;
        if (kind == 'd' && !as_directory) return in_the_way("a directory is in the way", path);
        if (kind != 'd' && member == members.end()) return in_the_way("something is in the way", path);
    }
    return {};
}

Status look(Files& files, const FilePath& directory, const Members& members)
{
    BERTH_TRY(const auto path, check_path(directory.path));
    std::string names;
    for (const auto& name : names_of(members)) names += name + '\0';
    const ByteSource source = [&names, at = std::size_t{0}]() mutable -> Result<std::string> {
        std::string piece = names.substr(std::min(at, names.size()), kPiece);
        at += piece.size();
        return piece;
    };
    BERTH_TRY(const auto list, files.stage(directory.user, path + "/", source));
    std::string told;
    const ByteSink keep = [&](std::string_view bytes) -> Status {
        if (told.size() + bytes.size() > kMostThere)
            return fail(Code::Exhausted, "too much is there already");
        told += bytes;
        return {};
    };
    BERTH_TRY(
        [[maybe_unused]] const auto done,
        files.run(
            {.script = with_kind(kLook), .arguments = {path, list}, .user = directory.user, .out = keep},
            path));
    std::map<std::string, char> there;
    for (const auto& one : split(told, '\0'))
        if (!one.empty()) there[one.substr(1)] = one.front();
    return fits(members, there);
}

} // namespace

Status read_tree(Files& files, const FilePath& directory, const ArchiveOptions& options, const ByteSink& sink)
{
    BERTH_TRY(const auto path, check_path(directory.path));
    const std::string whole = options.whole ? "yes" : "no";
    const std::string mounts = options.mounts ? "yes" : "no";
    if (options.left_out) {
        BERTH_TRY(const auto others, files.run({.script = std::string(kLeftOut),
                                                .arguments = {path, mounts},
                                                .user = directory.user,
                                                .out = {}},
                                               path));
        for (const auto& one : split(others.out, '\0')) {
            if (one.size() < 2) continue;
            const char kind = one.front();
            if (kind == 'p' && options.whole) continue;
            options.left_out(one.substr(1), kind == 's' ? "a socket" : kind == 'p' ? "a pipe" : "a device");
        }
    }
    std::vector<std::string> arguments{path, whole, mounts};
    for (const auto& skip : options.skip) arguments.push_back(literal(skip));
    // All of a root is not one user's.
    BERTH_TRY([[maybe_unused]] const auto done, files.run({.script = with_kind(kPack),
                                                           .arguments = std::move(arguments),
                                                           .user = options.whole ? "root" : directory.user,
                                                           .out = sink},
                                                          path));
    return {};
}

Status write_tree(Files& files, int spool, const FilePath& directory, const ByteSource& source,
                  const ArchiveLimits& limits)
{
    BERTH_CHECK(check_limits(limits));
    BERTH_TRY(const auto path, check_path(directory.path));
    BERTH_TRY(const auto given, spool_all(spool, source, limits.input));
    BERTH_TRY(const auto members, image::check_archive(given.get(), limits));
    BERTH_CHECK(rewind(given.get()));
    BERTH_TRY(const auto ours, nameless_file(spool));
    BERTH_CHECK(rewrite(given.get(), ours.get(), limits));
    BERTH_CHECK(look(files, directory, members));
    BERTH_TRY(const auto staged, files.stage(directory.user, path + "/", source_of(ours.get())));
    BERTH_TRY(
        [[maybe_unused]] const auto done,
        files.run(
            {.script = std::string(kUnpack), .arguments = {path, staged}, .user = directory.user, .out = {}},
            path));
    return {};
}

} // namespace berth::scripted
