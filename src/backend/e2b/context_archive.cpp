#include "backend/e2b/context_archive.hpp"

#include <fcntl.h>
#include <fnmatch.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/gzip.hpp"
#include "image/tar_writer.hpp"

namespace berth::e2b_client {

namespace {

constexpr std::size_t kMostMembers = 100'000;
constexpr std::size_t kPiece = std::size_t{256} << 10;

bool is_pattern(std::string_view text) { return text.find_first_of("*?[") != std::string_view::npos; }

/// "a/b" of "./a//b/"; nothing for what leads out of the context.
Result<std::string> clean(const std::string& source)
{
    std::vector<std::string> parts;
    for (auto& part : split(source, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..")
            return fail(Code::Invalid, "COPY from '{}', which is not below the context",
                        printable(source, 100));
        parts.push_back(std::move(part));
    }
    return fmt::format("{}", fmt::join(parts, "/"));
}

bool fits(const std::string& pattern, const std::string& path)
{
    if (!pattern.starts_with("**/")) return ::fnmatch(pattern.c_str(), path.c_str(), FNM_PATHNAME) == 0;
    const auto rest = pattern.substr(3);
    for (std::size_t at = 0;;) {
        if (fits(rest, path.substr(at))) return true;
        at = path.find('/', at);
        if (at == std::string::npos) return false;
        ++at;
    }
}

/// A directory of the context with what lies in it, in order.
class Packing {
public:
    Packing(UniqueFd root, UniqueFd out, image::Gzip gzip, std::vector<std::string> ignored)
        : root_(std::move(root)), out_(std::move(out)), gzip_(std::move(gzip)), ignored_(std::move(ignored))
    {
    }

    Status add_matching(const std::string& pattern);
    Result<ContextArchive> finish();

private:
    Status match(int directory, const std::string& above, const std::vector<std::string>& parts,
                 std::size_t at);
    Status add(int directory, const std::string& name, const std::string& path);
    Status add_file(int file, const struct stat& st, const std::string& path);
    Status put(std::string_view bytes);

    UniqueFd root_;
    UniqueFd out_;
    image::Gzip gzip_;
    std::vector<std::string> ignored_;
    Sha256 hash_;
    std::size_t members_ = 0;
};

Status Packing::put(std::string_view bytes)
{
    hash_.update(bytes);
    BERTH_TRY(const auto packed, gzip_.add(bytes));
    return write_all(out_.get(), packed);
}

Status Packing::add_file(int file, const struct stat& st, const std::string& path)
{
    const auto size = static_cast<std::uint64_t>(st.st_size);
    BERTH_CHECK(put(image::tar::header({.name = path, .mode = st.st_mode & 07777, .size = size})));
    std::string piece(kPiece, '\0');
    for (std::uint64_t done = 0; done < size;) {
        const auto n = ::read(file, piece.data(), std::min<std::uint64_t>(piece.size(), size - done));
        if (n < 0) return fail_errno("reading {}", printable(path));
        if (n == 0) return fail(Code::Conflict, "{} became shorter while it was read", printable(path));
        BERTH_CHECK(put(std::string_view(piece).substr(0, static_cast<std::size_t>(n))));
        done += static_cast<std::uint64_t>(n);
    }
    return put(image::tar::padding(size));
}

Status Packing::add(int directory, const std::string& name, const std::string& path)
{
    const bool ignored = is_ignored(ignored_, path);
    struct stat st{};
    if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("looking at {}", printable(path));
    if (ignored && !S_ISDIR(st.st_mode)) return {};
    if (++members_ > kMostMembers)
        return fail(Code::Invalid, "more than {} files: name less in COPY, or more in .dockerignore",
                    kMostMembers);
    using Kind = image::TarMember::Kind;
    if (S_ISLNK(st.st_mode)) {
        std::string target(PATH_MAX, '\0');
        const auto size = ::readlinkat(directory, name.c_str(), target.data(), target.size());
        if (size < 0) return fail_errno("reading the link {}", printable(path));
        target.resize(static_cast<std::size_t>(size));
        return put(image::tar::header(
            {.name = path, .kind = Kind::Symlink, .target = std::move(target), .mode = 0777}));
    }
    const UniqueFd object(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!object || ::fstat(object.get(), &st) != 0) return fail_errno("opening {}", printable(path));
    if (S_ISREG(st.st_mode)) return add_file(object.get(), st, path);
    if (!S_ISDIR(st.st_mode))
        return fail(Code::Invalid, "{} is neither a file, a directory nor a link", printable(path));
    // One that is left out may hold what is brought back.
    if (!ignored)
        BERTH_CHECK(
            put(image::tar::header({.name = path, .kind = Kind::Directory, .mode = st.st_mode & 07777})));
    BERTH_TRY(const auto names, list_names(object.get()));
    for (const auto& one : names) BERTH_CHECK(add(object.get(), one, path + "/" + one));
    return {};
}

Status Packing::match(int directory, const std::string& above, const std::vector<std::string>& parts,
                      std::size_t at)
{
    BERTH_TRY(const auto names, list_names(directory));
    for (const auto& name : names) {
        if (::fnmatch(parts[at].c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
        const auto path = above.empty() ? name : above + "/" + name;
        if (at + 1 == parts.size()) {
            BERTH_CHECK(add(directory, name, path));
            continue;
        }
        const UniqueFd below(
            ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (below) BERTH_CHECK(match(below.get(), path, parts, at + 1));
    }
    return {};
}

Status Packing::add_matching(const std::string& pattern)
{
    if (pattern.empty()) {
        BERTH_TRY(const auto names, list_names(root_.get()));
        for (const auto& name : names) BERTH_CHECK(add(root_.get(), name, name));
    } else if (is_pattern(pattern)) {
        if (pattern.find("**") != std::string::npos)
            return fail(Code::Invalid, "COPY '{}': '**' is not understood", printable(pattern, 100));
        BERTH_CHECK(match(root_.get(), {}, split(pattern, '/'), 0));
    } else {
        BERTH_CHECK(add(root_.get(), pattern, pattern));
    }
    if (members_ == 0)
        return fail(Code::NotFound, "COPY '{}': nothing in the context fits", printable(pattern, 100));
    return {};
}

Result<ContextArchive> Packing::finish()
{
    BERTH_CHECK(put(image::tar::end()));
    BERTH_TRY(const auto rest, gzip_.finish());
    BERTH_CHECK(write_all(out_.get(), rest));
    const auto size = ::lseek(out_.get(), 0, SEEK_CUR);
    if (size < 0 || ::lseek(out_.get(), 0, SEEK_SET) != 0) return fail_errno("packing the context");
    return ContextArchive{
        .file = std::move(out_), .size = static_cast<std::uint64_t>(size), .hash = hash_.hex()};
}

} // namespace

bool is_ignored(const std::vector<std::string>& lines, const std::string& path)
{
    bool out = false;
    for (const auto& line : lines) {
        std::string pattern = line;
        std::erase(pattern, '\r');
        if (pattern.empty() || pattern.starts_with('#')) continue;
        const bool back = pattern.starts_with('!');
        if (back) pattern.erase(0, 1);
        while (pattern.starts_with('/')) pattern.erase(0, 1);
        while (pattern.ends_with('/')) pattern.pop_back();
        // A directory that fits takes all below it along.
        for (std::size_t at = 0; at != std::string::npos && !pattern.empty();) {
            at = path.find('/', at + (at == 0 ? 0 : 1));
            if (!fits(pattern, path.substr(0, at))) continue;
            out = !back;
            break;
        }
    }
    return out;
}

Result<ContextArchive> pack_context(const std::string& context, const std::string& source)
{
    BERTH_TRY(const auto pattern, clean(source));
    UniqueFd root(::open(context.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root) return fail_errno("opening the context {}", printable(context));
    const char* place = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): a command of one thread
    if (place == nullptr || *place == '\0') place = "/tmp";
    UniqueFd out(::open(place, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!out) out.reset(::memfd_create("context", MFD_CLOEXEC)); // not every file system has such files
    if (!out) return fail_errno("making a file in {}", place);
    std::vector<std::string> ignored;
    auto lines = read_file_at(root.get(), ".dockerignore");
    if (!lines && lines.error().code != Code::NotFound) return std::unexpected(std::move(lines).error());
    if (lines) ignored = split(*lines, '\n');
    BERTH_TRY(auto gzip, image::Gzip::open());
    Packing packing(std::move(root), std::move(out), std::move(gzip), std::move(ignored));
    BERTH_CHECK(packing.add_matching(pattern));
    return packing.finish();
}

} // namespace berth::e2b_client
