#include "scripted/files.hpp"

#include <unistd.h>

#include <charconv>

#include "base/encoding.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "scripted/spool.hpp"

namespace berth::scripted {

namespace {

constexpr std::size_t kInline = std::size_t{64} << 10; // more than this goes by a temporary file
constexpr Bytes kLargest{1ull << 40};
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kMostEntries = 100'000;

// Each says with its exit whether it worked, and why not with its last words. `t` tells the kind of what a
// path leads to; "l" is a link that leads nowhere.
constexpr std::string_view kKind = R"(
k() { t=$(find -H "$1" -maxdepth 0 -printf '%y %s') || exit 9
case $t in l*) echo "$1: No such file or directory" >&2; exit 9;; esac; }
)";

constexpr std::string_view kRead = R"(
d "$1"; p=$v
r=$(readlink -f -- "$p" && echo .)
case $r in /proc/*|/sys/*|/dev/*) echo 'Not a regular file' >&2; exit 9;; esac
k "$p"
case $t in f*) ;; d*) echo 'Is a directory' >&2; exit 9;; *) echo 'Not a regular file' >&2; exit 9;; esac
[ "${t#f }" -le "$2" ] || { echo 'too large' >&2; exit 9; }
exec head -c "$2" -- "$p"
)";

// "$2" is the mode or "-", "$3" the contents in base64 or "$4" the file that has them, "$5" a random word.
constexpr std::string_view kWrite = R"(
d "$1"; p=$v; d "$4"; s=$v
c=${p%/*}; [ -n "$c" ] || c=/
n=${p##*/}
[ -z "$s" ] || trap 'rm -f -- "$s"' EXIT
case $n in ''|.|..) echo 'Is a directory' >&2; exit 9;; esac
[ ! -d "$p" ] || [ -L "$p" ] || { echo 'Is a directory' >&2; exit 9; }
m=$2
[ "$m" != - ] || { [ -f "$p" ] && [ ! -L "$p" ] && m=$(stat -c %a -- "$p") && m=$((0$m & 0777)) && m=$(printf %o $m); } || m=644
f=$c/.berth-$5
trap 'rm -f -- "$f" ${s:+"$s"}' EXIT
umask 077
if [ -n "$s" ]; then cat -- "$s" > "$f" || exit 9; else printf %s "$3" | base64 -d > "$f" || exit 9; fi
chmod "$m" -- "$f" || exit 9
mv -fT -- "$f" "$p" || exit 9
)";

constexpr std::string_view kFill = R"(
d "$1"; p=$v; d "$3"; s=$v
trap 'rm -f -- "$s"' EXIT
[ ! -d "$p" ] || { echo 'Is a directory' >&2; exit 9; }
[ ! -e "$p" ] || [ -f "$p" ] || { echo 'Not a regular file' >&2; exit 9; }
new=no; [ -e "$p" ] || new=yes
umask 022
cat -- "$s" > "$p" || exit 9
[ $new = no ] || [ "$2" = - ] || chmod "$2" -- "$p" || exit 9
)";

constexpr std::string_view kList = R"(
d "$2"; f=$v; d "$1"; p=$v
k "$p"
case $t in d*) ;; *) echo 'Not a directory' >&2; exit 9;; esac
exec find "$p/" -mindepth 1 -maxdepth 1 -printf "$f"
)";

constexpr std::string_view kStat = R"(
d "$2"; f=$v; d "$1"; p=$v
[ "$3" = -P ] || k "$p"
exec find "$3" "$p" -maxdepth 0 -printf "$f"
)";

constexpr std::string_view kMakeDir = R"(
d "$1"; p=$v
if [ "$2" = yes ]; then exec mkdir -p -- "$p"; else exec mkdir -- "$p"; fi
)";

constexpr std::string_view kMove = R"(
d "$1"; p=$v; d "$2"; q=$v
[ ! -e "$q" ] && [ ! -L "$q" ] || { [ -e "$p" ] || [ -L "$p" ] && echo "$q: File exists" >&2 || echo "$p: No such file or directory" >&2; exit 9; }
mv -nT -- "$p" "$q" || exit 9
[ ! -e "$p" ] && [ ! -L "$p" ] || { echo "$q: File exists" >&2; exit 9; }
)";

// Where mv would copy, the old file would be gone before the new one is whole.
constexpr std::string_view kMoveOver = R"(
d "$1"; p=$v; d "$2"; q=$v
[ -e "$p" ] || [ -L "$p" ] || { echo "$p: No such file or directory" >&2; exit 9; }
[ "$p" != "$q" ] || exit 0
a=$(stat -c %d -- "${p%/*}/.") && b=$(stat -c %d -- "${q%/*}/.") || exit 9
[ "$a" = "$b" ] || { echo "$q: Invalid cross-device link" >&2; exit 9; }
exec mv -fT -- "$p" "$q"
)";

constexpr std::string_view kRemove = R"(
d "$1"; p=$v
case ${p##*/} in .|..) echo 'Is a directory' >&2; exit 9;; esac
t=$(find -P "$p" -maxdepth 0 -printf '%y') || exit 9
case $2$t in
yesd) exec rm -rf --one-file-system -- "$p" ;;
nod) exec rmdir -- "$p" ;;
*) exec rm -f -- "$p" ;;
esac
)";

FileEntry::Kind kind_of(std::string_view letter)
{
    if (letter == "f") return FileEntry::Kind::Regular;
    if (letter == "d") return FileEntry::Kind::Directory;
    if (letter == "l") return FileEntry::Kind::Symlink;
    return FileEntry::Kind::Other;
}

/// "1767225600.1234567890"
WallTime time_of(std::string_view text)
{
    const auto dot = text.find('.');
    std::int64_t seconds = 0, part = 0;
    std::from_chars(text.data(), text.data() + std::min(dot, text.size()), seconds);
    if (dot != std::string_view::npos) {
        std::string digits(text.substr(dot + 1, 9));
        digits.resize(9, '0');
        std::from_chars(digits.data(), digits.data() + digits.size(), part);
    }
    constexpr std::int64_t far = 9'000'000'000;
    return WallTime(std::chrono::seconds(std::clamp<std::int64_t>(seconds, -far, far)) +
                    std::chrono::nanoseconds(part));
}

/// All of a string, then its end.
ByteSource source_of(const std::string& bytes)
{
    return [&bytes, at = std::size_t{0}]() mutable -> Result<std::string> {
        std::string piece = bytes.substr(std::min(at, bytes.size()), std::size_t{256} << 10);
        at += piece.size();
        return piece;
    };
}

} // namespace

std::string with_kind(std::string_view script) { return std::string(kKind) + std::string(script); }

Result<std::string> check_path(const std::string& path)
{
    if (path.empty()) return fail(Code::Invalid, "an empty path");
    if (path.find('\0') != std::string::npos) return fail(Code::Invalid, "a path with NUL");
    if (path.size() > 4096) return fail(Code::Invalid, "a path of {} bytes", path.size());
    for (const auto& part : split(path, '/'))
        if (part.size() > 255) return fail(Code::Invalid, "a name of {} bytes", part.size());
    return path.starts_with('/') ? path : "/" + path;
}

Result<std::vector<FileEntry>> parse_entries(std::string_view text)
{
    constexpr std::size_t fields = 8;
    std::vector<FileEntry> out;
    const auto parts = split(text, '\0');
    if (parts.size() % fields != 1 || !parts.back().empty())
        return fail(Code::Invalid, "the sandbox lists files in a way nobody understands");
    if (parts.size() / fields > kMostEntries)
        return fail(Code::Invalid, "a directory with more than {} entries", kMostEntries);
    for (std::size_t i = 0; i + fields <= parts.size(); i += fields) {
        FileEntry& entry = out.emplace_back();
        entry.name = parts[i];
        entry.kind = kind_of(parts[i + 1]);
        BERTH_TRY(const auto size, parse_int(parts[i + 2], 0, INT64_MAX, "size"));
        entry.size = Bytes{static_cast<std::uint64_t>(size)};
        unsigned mode = 0;
        std::from_chars(parts[i + 3].data(), parts[i + 3].data() + parts[i + 3].size(), mode, 8);
        entry.mode = mode & 07777;
        entry.modified = time_of(parts[i + 4]);
        entry.target = parts[i + 5];
        BERTH_TRY(const auto uid, parse_int(parts[i + 6], 0, UINT32_MAX, "uid"));
        BERTH_TRY(const auto gid, parse_int(parts[i + 7], 0, UINT32_MAX, "gid"));
        entry.uid = static_cast<std::uint32_t>(uid);
        entry.gid = static_cast<std::uint32_t>(gid);
    }
    return out;
}

Result<CommandEnd> Files::run(const Command& command, std::string_view what)
{
    BERTH_TRY(auto end, hands_.run(command));
    if (end.status.success()) return end;
    if (!end.status.known()) return fail(Code::Unavailable, "{}: nobody knows how it ended", printable(what));
    return std::unexpected(error_of_words(end.err, printable(what)));
}

Status Files::read(const FilePath& file, Bytes limit, const ByteSink& sink)
{
    BERTH_TRY(const auto path, check_path(file.path));
    std::uint64_t left = limit.count;
    const ByteSink bounded = [&](std::string_view bytes) -> Status {
        if (bytes.size() > left) return fail(Code::Invalid, "{} is too large", printable(path));
        left -= bytes.size();
        return sink(bytes);
    };
    BERTH_TRY([[maybe_unused]] const auto done, run({.script = with_kind(kRead),
                                                     .arguments = {path, std::to_string(limit.count)},
                                                     .user = file.user,
                                                     .out = bounded},
                                                    path));
    return {};
}

Result<UniqueFd> Files::read_aside(const FilePath& file, int directory)
{
    BERTH_TRY(auto spool, nameless_file(directory));
    const ByteSink keep = [&](std::string_view bytes) { return write_all(spool.get(), bytes); };
    BERTH_CHECK(read(file, kLargest, keep));
    if (::lseek(spool.get(), 0, SEEK_SET) != 0) return fail_errno("reading {}", printable(file.path));
    return spool;
}

Status Files::write(const FilePath& file, const std::string& bytes, std::optional<unsigned> mode)
{
    BERTH_TRY(const auto path, check_path(file.path));
    std::string staged;
    if (bytes.size() > kInline) {
        BERTH_TRY(staged, stage(file.user, path, source_of(bytes)));
    }
    BERTH_TRY([[maybe_unused]] const auto done,
              run({.script = with_kind(kWrite),
                   .arguments = {path, mode ? fmt::format("{:o}", *mode & 0777) : "-",
                                 staged.empty() ? base64_encode(bytes) : "", staged, random_hex(8)},
                   .user = file.user,
                   .out = {}},
                  path));
    return {};
}

Status Files::fill(const FilePath& file, const FileContents& contents)
{
    BERTH_TRY(const auto path, check_path(file.path));
    std::uint64_t total = 0;
    const ByteSource source = [&]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        ssize_t n = 0;
        do n = ::read(contents.source.get(), piece.data(), piece.size());
        while (n < 0 && errno == EINTR);
        if (n < 0) return fail_errno("reading what becomes {}", printable(path));
        piece.resize(static_cast<std::size_t>(n));
        total += piece.size();
        if (total > contents.limit.count)
            return fail(Code::Invalid, "{} would be too large", printable(path));
        return piece;
    };
    BERTH_TRY(const auto staged, stage(file.user, path, source));
    const auto mode = contents.mode;
    BERTH_TRY([[maybe_unused]] const auto done,
              run({.script = with_kind(kFill),
                   .arguments = {path, mode ? fmt::format("{:o}", *mode & 0777) : "-", staged},
                   .user = file.user,
                   .out = {}},
                  path));
    return {};
}

Result<std::vector<FileEntry>> Files::list(const FilePath& directory)
{
    BERTH_TRY(const auto path, check_path(directory.path));
    std::string all;
    const ByteSink keep = [&](std::string_view bytes) -> Status {
        if (all.size() + bytes.size() > (std::size_t{64} << 20))
            return fail(Code::Invalid, "{} has too many entries", printable(path));
        all += bytes;
        return {};
    };
    BERTH_TRY([[maybe_unused]] const auto done, run({.script = with_kind(kList),
                                                     .arguments = {path, std::string(kEntryFormat)},
                                                     .user = directory.user,
                                                     .out = keep},
                                                    path));
    return parse_entries(all);
}

Result<FileEntry> Files::stat(const FilePath& file)
{
    BERTH_TRY(const auto path, check_path(file.path));
    BERTH_TRY(const auto done, run({.script = with_kind(kStat),
                                    .arguments = {path, std::string(kEntryFormat), file.follow ? "-H" : "-P"},
                                    .user = file.user,
                                    .out = {}},
                                   path));
    BERTH_TRY(auto all, parse_entries(done.out));
    if (all.size() != 1) return fail(Code::Internal, "{} is not one entry", printable(path));
    std::string_view name = path;
    while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
    all.front().name = name == "/" ? "/" : std::string(name.substr(name.rfind('/') + 1));
    return std::move(all.front());
}

Status Files::make_dir(const FilePath& directory, MakeParents parents)
{
    BERTH_TRY(const auto path, check_path(directory.path));
    BERTH_TRY([[maybe_unused]] const auto done,
              run({.script = with_kind(kMakeDir),
                   .arguments = {path, parents == MakeParents::Yes ? "yes" : "no"},
                   .user = directory.user,
                   .out = {}},
                  path));
    return {};
}

Status Files::move(const FilePath& from, const std::string& to)
{
    BERTH_TRY(const auto source, check_path(from.path));
    BERTH_TRY(const auto target, check_path(to));
    BERTH_TRY([[maybe_unused]] const auto done,
              run({.script = with_kind(kMove), .arguments = {source, target}, .user = from.user, .out = {}},
                  source));
    return {};
}

Status Files::move_over(const FilePath& from, const std::string& to)
{
    BERTH_TRY(const auto source, check_path(from.path));
    BERTH_TRY(const auto target, check_path(to));
    BERTH_TRY(
        [[maybe_unused]] const auto done,
        run({.script = with_kind(kMoveOver), .arguments = {source, target}, .user = from.user, .out = {}},
            source));
    return {};
}

Status Files::remove(const FilePath& file, RemoveTree tree)
{
    BERTH_TRY(auto path, check_path(file.path));
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (path == "/") return fail(Code::Invalid, "the root cannot be removed");
    BERTH_TRY([[maybe_unused]] const auto done,
              run({.script = with_kind(kRemove),
                   .arguments = {path, tree == RemoveTree::Yes ? "yes" : "no"},
                   .user = file.user,
                   .out = {}},
                  path));
    return {};
}

} // namespace berth::scripted
