// fs/* of a sandbox. Where the intent takes nothing away, the backend's own files are used: they have the
// sandbox's rights, which is what is asked for. Everywhere else the operation is a small command under the
// same policy that a process would have, so that the kernel decides on what is really there; what is said
// about a name before that only refuses more.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "policy/target.hpp"
#include "scripted/command.hpp"
#include "scripted/files.hpp"
#include "server/codex/sandbox_place.hpp"
#include "server/codex/sandbox_walk.hpp"
#include "server/codex/sandbox_watch.hpp"

namespace berth::codex {

struct SandboxPlace::Script {
    std::string_view text;
    std::vector<std::string> arguments;
    std::string input{}; ///< all of it; then comes its end
};

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 120s;
constexpr std::size_t kMostPrinted = std::size_t{64} << 20;
constexpr std::size_t kKept = std::size_t{1} << 20; ///< of a file that is opened; a client may open many

// `n` refuses a path through a link; `k` (scripted) tells the kind of what a path leads to.
constexpr std::string_view kNoLinks = R"sh(
n() { r=$(readlink -f -- "$1" && echo .) || return 0
[ "$r" = "$1
." ] || { [ -L "$1" ] && echo 'Too many levels of symbolic links' >&2 || echo 'Not a directory' >&2; exit 9; }; }
)sh";

constexpr std::string_view kMetadata = R"sh(
d "$2"; f=$v; d "$1"; p=$v
[ "$3" = yes ] || n "$p"
l=$(find -P "$p" -maxdepth 0 -printf '%y') || exit 9
k "$p"
find -H "$p" -maxdepth 0 -printf "$f" && printf %s "$l"
)sh";

constexpr std::string_view kCanonical = R"sh(
d "$1"; p=$v
r=$(realpath -e -- "$p" && echo .) || exit 9
printf %s "${r%?.}"
)sh";

constexpr std::string_view kRead = R"sh(
d "$1"; p=$v
[ "$3" = yes ] || n "$p"
k "$p"
case $t in f*) ;; *) echo 'not a regular file' >&2; exit 9;; esac
[ "${t#f }" -le "$2" ] || { echo 'too large' >&2; exit 9; }
exec head -c "$2" -- "$p"
)sh";

// The rest of a file that is opened comes piece by piece, as long as it is that file.
constexpr std::string_view kOpen = R"sh(
d "$1"; p=$v
k "$p"
case $t in f*) ;; *) echo 'not a regular file' >&2; exit 9;; esac
exec < "$p" || exit 9
s=$(stat -c '%d:%i %s' -) || exit 9
echo "$s"
[ "${s#* }" -gt "$2" ] || exec head -c "$2"
)sh";

constexpr std::string_view kPiece = R"sh(
d "$1"; p=$v
k "$p"
case $t in f*) ;; *) echo 'not a regular file' >&2; exit 9;; esac
exec < "$p" || exit 9
[ "$(stat -c '%d:%i' -)" = "$2" ] || { echo 'Stale file handle' >&2; exit 9; }
exec dd bs=65536 iflag=fullblock,skip_bytes,count_bytes skip="$3" count="$4" status=none
)sh";

constexpr std::string_view kWrite = R"sh(
d "$1"; p=$v
[ "$2" = yes ] || n "$p"
[ ! -d "$p" ] || { echo 'Is a directory' >&2; exit 9; }
[ ! -e "$p" ] || [ -f "$p" ] || { echo 'not a regular file' >&2; exit 9; }
umask 022
exec cat > "$p"
)sh";

constexpr std::string_view kMakeDirectory = R"sh(
d "$1"; p=$v
[ "$3" = yes ] || n "$p"
if [ "$2" = yes ]; then exec mkdir -p -- "$p"; else exec mkdir -- "$p"; fi
)sh";

constexpr std::string_view kRemove = R"sh(
d "$1"; p=$v
[ "$4" = yes ] || n "${p%/*}"
e=$(find -P "$p" -maxdepth 0 -printf '' 2>&1) || {
case $e in *'No such file'*) [ "$3" = yes ] && exit 0;; esac
echo "$e" >&2; exit 9; }
if [ -d "$p" ] && [ ! -L "$p" ]; then
if [ "$2" = yes ]; then exec rm -rf --one-file-system -- "$p"; else exec rmdir -- "$p"; fi
else exec rm -f -- "$p"; fi
)sh";

constexpr std::string_view kList = R"sh(
d "$1"; p=$v
k "$p"
case $t in d*) ;; *) echo 'Not a directory' >&2; exit 9;; esac
[ -r "$p" ] || { echo 'Permission denied' >&2; exit 9; }
find -L "$p/" -mindepth 1 -maxdepth 1 ! -type l -printf '%f\0%y\0' 2>/dev/null
exit 0
)sh";

constexpr std::string_view kCopy = R"sh(
d "$1"; p=$v; d "$2"; q=$v
t=$(find -P "$p" -maxdepth 0 -printf '%y') || exit 9
case $3$t in nod) echo 'Invalid argument: a directory needs recursive' >&2; exit 9;; esac
if [ $t = d ]; then
case $(readlink -m -- "$q")/ in "$(readlink -f -- "$p")"/*) echo 'Invalid argument: into itself' >&2; exit 9;; esac
fi
exec cp -RPT -- "$p" "$q"
)sh";

std::string yes_no(bool value) { return value ? "yes" : "no"; }

/// A tool's last words as the kernel's number for them.
Error error_of(std::string_view words, const std::string& what)
{
    struct Word {
        std::string_view text;
        int number;
    };
    static constexpr Word known[] = {{"No such file or directory", ENOENT},
                                     {"nonexistent", ENOENT},
                                     {"Permission denied", EACCES},
                                     {"Operation not permitted", EPERM},
                                     {"Read-only file system", EROFS},
                                     {"Not a directory", ENOTDIR},
                                     {"Is a directory", EISDIR},
                                     {"File exists", EEXIST},
                                     {"Directory not empty", ENOTEMPTY},
                                     {"Too many levels of symbolic links", ELOOP},
                                     {"File name too long", ENAMETOOLONG},
                                     {"No space left on device", ENOSPC},
                                     {"Disk quota exceeded", EDQUOT},
                                     {"Device or resource busy", EBUSY},
                                     {"Stale file handle", ESTALE},
                                     {"are the same file", EINVAL},
                                     {"Invalid argument", EINVAL}};
    for (const auto& word : known)
        if (words.find(word.text) != std::string_view::npos)
            return fail_with(word.number, "{}", what).error();
    return scripted::error_of_words(words, what);
}

template <class T> Outcome<T> told(Result<T> done)
{
    if (done) return *std::move(done);
    return file_failed(done.error());
}
Outcome<void> told(Status done)
{
    if (done) return {};
    return file_failed(done.error());
}

std::int64_t milliseconds(WallTime time)
{
    return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

files::Metadata metadata_of(const FileEntry& entry, bool link)
{
    return {.directory = entry.kind == FileEntry::Kind::Directory,
            .file = entry.kind == FileEntry::Kind::Regular,
            .symlink = link,
            .size = entry.size.count,
            .created_ms = 0,
            .modified_ms = milliseconds(entry.modified)};
}

Result<UniqueFd> in_memory(std::string_view bytes)
{
    UniqueFd memory(::memfd_create("file", MFD_CLOEXEC));
    if (!memory) return fail_errno("making a file in memory");
    BERTH_CHECK(write_all(memory.get(), bytes));
    if (::lseek(memory.get(), 0, SEEK_SET) != 0) return fail_errno("reading a file in memory");
    return memory;
}

} // namespace

Task<Outcome<Narrowed>> SandboxPlace::govern(std::optional<Intent> intent, std::string path, Touch touch)
{
    auto rules = co_await narrow(std::move(intent), {});
    if (!rules) co_return refuse(-32602, rules.error().line());
    if (const auto fine = rules->check_name(path, touch); !fine) co_return file_failed(fine.error());
    co_return *std::move(rules);
}

Task<Result<std::string>> SandboxPlace::run(const Narrowed& rules, Script script)
{
    const auto self = shared_from_this();
    const std::string what = script.arguments.empty() ? "" : printable(script.arguments.front(), 200);
    ExecSpec spec;
    spec.id = make_exec_id(system_clock());
    spec.argv = scripted::shell_words({.script = std::string(kNoLinks) + scripted::with_kind(script.text),
                                       .arguments = std::move(script.arguments),
                                       .user = {},
                                       .out = {}});
    spec.env["LC_ALL"] = "C";
    spec.cwd = "/";
    spec.timeout = kPatience;
    spec.log_limit = 128_MiB;
    spec.input = script.input.empty() ? ExecSpec::Stdin::None : ExecSpec::Stdin::Open;
    spec.policy = rules.policy;
    std::string out, err;
    RunStreams streams{.input = std::move(script.input), .on_event = [&](const ExecEvent& event) {
                           if (event.kind == ExecEvent::Kind::Stdout && out.size() <= kMostPrinted)
                               out += event.bytes;
                           if (event.kind == ExecEvent::Kind::Stderr && err.size() < 4096) err += event.bytes;
                       }};
    Status begun = co_await ground_.traces->hold(record_.id(), rules.held);
    if (begun) begun = co_await backend_.exec(handle_, spec);
    Result<RunOutcome> ended = fail(Code::Internal, "{} was not started", spec.id);
    if (begun)
        ended = co_await backend_.follow(handle_, spec, std::move(streams));
    else
        ended = std::unexpected(begun.error());
    co_await release(rules.held);
    if (!ended) co_return std::unexpected(std::move(ended).error());
    if (ended->timed_out) co_return fail(Code::DeadlineExceeded, "{}: it took too long", what);
    if (out.size() > kMostPrinted || ended->dropped > 0)
        co_return fail(Code::Exhausted, "{} is too large", what);
    if (!ended->status.success()) co_return std::unexpected(error_of(err, what));
    co_return out;
}

/// For the backend's own files, which follow links.
Task<Status> SandboxPlace::refuse_links(std::string path)
{
    Looker looker(around());
    BERTH_CO_TRY(const auto seen, co_await looker.look(path));
    if (seen.links.empty()) co_return Status{};
    BERTH_CO_TRY(const auto last, co_await looker.entry(path));
    co_return fail_with(last && last->kind == FileEntry::Kind::Symlink ? ELOOP : ENOTDIR, "{}",
                        printable(path));
}

Task<Outcome<files::Metadata>> SandboxPlace::metadata(PathParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    Result<files::Metadata> done = fail(Code::Internal, "nobody looked");
    if (rules->reads_all) {
        Status fine;
        if (!p.follow) fine = co_await refuse_links(p.path);
        auto name = co_await backend_.stat_file(handle_, {.path = p.path, .user = {}, .follow = false});
        const bool link = name && name->kind == FileEntry::Kind::Symlink;
        if (link) name = co_await backend_.stat_file(handle_, {.path = p.path, .user = {}, .follow = true});
        if (!fine)
            done = std::unexpected(fine.error());
        else if (!name)
            done = std::unexpected(name.error());
        else
            done = metadata_of(*name, link);
    } else {
        auto text = co_await run(
            *rules, {.text = kMetadata,
                     .arguments = {p.path, std::string(scripted::kEntryFormat), yes_no(p.follow)}});
        if (!text || text->empty()) {
            done = std::unexpected(text ? fail(Code::Internal, "nothing was told").error() : text.error());
        } else {
            const bool link = text->back() == 'l';
            text->pop_back();
            const auto entries = scripted::parse_entries(*text);
            if (entries && entries->size() == 1) done = metadata_of(entries->front(), link);
        }
    }
    if (!done && !p.follow && done.error().sys.value() == ELOOP)
        co_return refuse(-32600, "path contains a symbolic link");
    co_return told(std::move(done));
}

Task<Outcome<std::string>> SandboxPlace::canonical(PathParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    if (!rules->reads_all) co_return told(co_await run(*rules, {.text = kCanonical, .arguments = {p.path}}));
    Looker looker(around());
    auto seen = co_await looker.look(p.path);
    if (!seen) co_return file_failed(seen.error());
    if (seen->missing) co_return file_failed(fail_with(ENOENT, "{}", printable(p.path)).error());
    co_return std::move(seen->real);
}

Task<Result<UniqueFd>> SandboxPlace::open_to_read(const Narrowed& rules, std::string path, bool follow)
{
    if (!rules.reads_all) {
        BERTH_CO_TRY(
            const auto bytes,
            co_await run(rules, {.text = kRead,
                                 .arguments = {path, std::to_string(files::kReadLimit), yes_no(follow)}}));
        co_return in_memory(bytes);
    }
    if (!follow) BERTH_CO_CHECK(co_await refuse_links(path));
    auto opened = co_await backend_.open_file(handle_, {.path = path, .user = {}});
    if (!opened && opened.error().sys.value() == EISDIR)
        co_return fail(Code::Invalid, "{} is not a regular file", printable(path));
    co_return opened;
}

Task<Outcome<std::string>> SandboxPlace::read(PathParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    const auto opened = co_await open_to_read(*rules, p.path, p.follow);
    if (!opened) co_return file_failed(opened.error());
    co_return told(co_await ground_.pool.call(
        [&] { return read_to_end(opened->get(), Bytes{files::kReadLimit}, printable(p.path)); }));
}

Task<Outcome<OpenFile>> SandboxPlace::open(OpenParams p)
{
    if (p.mode == OpenParams::Mode::Replace)
        co_return refuse(-32602, "mode: a file in a sandbox is written as a whole (fs/writeFile)");
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    if (!rules->reads_all) co_return told(co_await open_in_pieces(*rules, std::move(p)));
    auto opened = co_await open_to_read(*rules, p.path, true);
    if (!opened) co_return file_failed(opened.error());
    co_return OpenFile{.file = *std::move(opened), .read_at = {}};
}

Task<Result<OpenFile>> SandboxPlace::open_in_pieces(const Narrowed& rules, OpenParams p)
{
    const auto self = shared_from_this();
    BERTH_CO_TRY(const auto text,
                 co_await run(rules, {.text = kOpen, .arguments = {p.path, std::to_string(kKept)}}));
    const std::string_view all = text;
    const auto line = all.substr(0, all.find('\n'));
    const auto blank = line.find(' ');
    if (line.size() == all.size() || blank == line.npos)
        co_return fail(Code::Internal, "{}: nothing was told", printable(p.path));
    BERTH_CO_TRY(const auto size, parse_int(line.substr(blank + 1), 0, LLONG_MAX, "size"));
    if (size <= static_cast<long long>(kKept)) {
        BERTH_CO_TRY(auto kept, in_memory(all.substr(line.size() + 1)));
        co_return OpenFile{.file = std::move(kept), .read_at = {}};
    }
    co_return OpenFile{.file = {},
                       .read_at = [self, p, identity = std::string(line.substr(0, blank))](
                                      std::uint64_t offset, std::size_t length) {
                           return self->read_piece(p, identity, offset, length);
                       }};
}

Task<Outcome<std::string>> SandboxPlace::read_piece(OpenParams p, std::string identity, std::uint64_t offset,
                                                    std::size_t length)
{
    const auto self = shared_from_this();
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    co_return told(co_await run(*rules, {.text = kPiece,
                                         .arguments = {p.path, std::move(identity), std::to_string(offset),
                                                       std::to_string(length)}}));
}

Task<Outcome<void>> SandboxPlace::write(WriteFileParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Write);
    if (!rules) co_return std::unexpected(rules.error());
    if (rules->policy) {
        // A command whose input is empty has none.
        const auto done = co_await run(
            *rules, {.text = kWrite, .arguments = {p.path, yes_no(p.follow)}, .input = std::move(p.bytes)});
        if (!done) co_return file_failed(done.error());
        co_return Outcome<void>{};
    }
    if (!p.follow)
        if (const auto fine = co_await refuse_links(p.path); !fine) co_return file_failed(fine.error());
    auto source = in_memory(p.bytes);
    if (!source) co_return file_failed(source.error());
    co_return told(co_await backend_.fill_file(handle_, {.path = p.path, .user = {}},
                                               {.source = *std::move(source), .limit = 64_MiB}));
}

Task<Outcome<void>> SandboxPlace::make_directory(PathParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Write);
    if (!rules) co_return std::unexpected(rules.error());
    const auto done = co_await run(
        *rules, {.text = kMakeDirectory, .arguments = {p.path, yes_no(p.recursive), yes_no(p.follow)}});
    if (!done) co_return file_failed(done.error());
    co_return Outcome<void>{};
}

Task<Outcome<void>> SandboxPlace::remove(PathParams p, std::stop_token)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Write);
    if (!rules) co_return std::unexpected(rules.error());
    const auto done =
        co_await run(*rules, {.text = kRemove,
                              .arguments = {p.path, yes_no(p.recursive), yes_no(p.force), yes_no(p.follow)}});
    if (!done) co_return file_failed(done.error());
    co_return Outcome<void>{};
}

Task<Outcome<std::vector<files::Entry>>> SandboxPlace::list(PathParams p)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    const auto text = co_await run(*rules, {.text = kList, .arguments = {p.path}});
    if (!text) co_return file_failed(text.error());
    std::vector<files::Entry> out;
    const auto parts = split(*text, '\0');
    if (parts.size() / 2 > files::kMaxEntries)
        co_return refuse(-32600,
                         fmt::format("{} has more than {} entries", printable(p.path), files::kMaxEntries));
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
        if (!rules->is_held((p.path == "/" ? "" : p.path) + "/" + parts[i]))
            out.push_back({.name = parts[i], .directory = parts[i + 1] == "d", .file = parts[i + 1] == "f"});
    co_return out;
}

Task<Outcome<void>> SandboxPlace::copy(CopyParams p, std::stop_token)
{
    const auto rules = co_await govern(p.sandbox, p.from, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    if (const auto fine = rules->check_name(p.to, Touch::Write); !fine) co_return file_failed(fine.error());
    const auto done = co_await run(*rules, {.text = kCopy, .arguments = {p.from, p.to, yes_no(p.recursive)}});
    if (!done) co_return file_failed(done.error());
    co_return Outcome<void>{};
}

Task<Outcome<files::WalkResult>> SandboxPlace::walk(WalkParams p, std::stop_token)
{
    const auto rules = co_await govern(p.sandbox, p.path, Touch::Read);
    if (!rules) co_return std::unexpected(rules.error());
    const auto text = co_await run(*rules, {.text = kFindBelow,
                                            .arguments = {p.path, std::to_string(p.max_depth + 1),
                                                          p.follow_directory_links ? "-L" : "-P"}});
    if (!text) co_return file_failed(text.error());
    co_return walk_found(p, *text, [&](const std::string& path) { return rules->is_held(path); });
}

std::shared_ptr<Watcher> SandboxPlace::watcher(boost::asio::any_io_executor loop, Fire fire)
{
    if (!backend_.capabilities().can(Operation::Watch)) return nullptr;
    return watch_sandbox(std::move(loop), std::move(fire), around());
}

} // namespace berth::codex
