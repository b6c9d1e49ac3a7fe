// Protects this machine from what a sandbox hands out: names, kinds and sizes of an archive are its
// inhabitants' choice. Relies on image::check_archive and image::ArchiveWriter, and for one file on its
// name being the caller's and never the archive's.
#include "cli/host_copy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "image/archive_writer.hpp"
#include "image/tree_reader.hpp"

namespace berth::cli {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

/// One file as an archive tells it: its entry, then its content without the holes, which cost a sandbox
/// nothing and are as large as it likes.
class OneFile {
public:
    static Result<OneFile> open(int spool, const ArchiveLimits& limits)
    {
        BERTH_CHECK(rewind(spool));
        BERTH_TRY(auto reader, image::TarReader::open(spool, image::stream_limit(limits)));
        OneFile out(std::move(reader));
        BERTH_TRY(const bool any, out.reader_.next(out.entry_));
        if (!any || out.entry_.kind != image::TarEntry::Kind::File)
            return fail(Code::Invalid, "the sandbox gave something else than a file");
        if (out.entry_.size < 0 || static_cast<std::uint64_t>(out.entry_.size) > limits.extracted.count)
            return fail(Code::Exhausted, "the file is larger than {}", show(limits.extracted));
        return out;
    }

    [[nodiscard]] const image::TarEntry& entry() const { return entry_; }

    /// The next bytes and their place, behind those before and within the file; none at the end.
    Result<std::optional<image::TarBlock>> next()
    {
        for (;;) {
            BERTH_TRY(const auto block, reader_.block());
            if (!block) return std::nullopt;
            const auto length = static_cast<std::int64_t>(block->bytes.size());
            if (block->offset < at_ || block->offset > entry_.size || length > entry_.size - block->offset)
                return fail(Code::Invalid, "the archive of the sandbox is damaged");
            at_ = block->offset + length;
            if (length > 0) return block;
        }
    }

private:
    explicit OneFile(image::TarReader reader) : reader_(std::move(reader)) {}
    image::TarReader reader_;
    image::TarEntry entry_;
    std::int64_t at_ = 0;
};

Result<std::vector<image::TarExtent>> extents_of(OneFile file)
{
    std::vector<image::TarExtent> out;
    const auto size = static_cast<std::uint64_t>(file.entry().size);
    for (;;) {
        BERTH_TRY(const auto block, file.next());
        if (!block) break;
        const auto offset = static_cast<std::uint64_t>(block->offset);
        if (!out.empty() && out.back().offset + out.back().size == offset)
            out.back().size += block->bytes.size();
        else
            out.push_back({.offset = offset, .size = block->bytes.size()});
    }
    if (out.empty() || out.back().offset + out.back().size < size) out.push_back({.offset = size, .size = 0});
    return out;
}

Status write_file(OneFile& file, int out)
{
    for (;;) {
        BERTH_TRY(const auto block, file.next());
        if (!block) break;
        if (::lseek(out, block->offset, SEEK_SET) < 0) return fail_errno("finding a place in a file");
        BERTH_CHECK(write_all(out, block->bytes));
    }
    if (::ftruncate(out, file.entry().size) != 0) return fail_errno("sizing a file");
    return {};
}

Status pass_zeros(std::int64_t count, const ByteSink& sink)
{
    const std::string zeros(kPiece, '\0');
    for (std::size_t n = 0; count > 0; count -= static_cast<std::int64_t>(n)) {
        n = std::min<std::size_t>(zeros.size(), static_cast<std::size_t>(count));
        BERTH_CHECK(sink(std::string_view(zeros).substr(0, n)));
    }
    return {};
}

} // namespace

Result<UniqueFd> make_spool(const std::string& directory)
{
    UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file) return file;
    if (errno != EOPNOTSUPP && errno != EISDIR) return fail_errno("making a temporary file in {}", directory);
    const std::string path = fmt::format("{}/.spool-{}", directory, random_hex(16));
    file.reset(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("making a temporary file in {}", directory);
    ::unlink(path.c_str());
    return file;
}

Status rewind(int spool)
{
    if (::lseek(spool, 0, SEEK_SET) != 0) return fail_errno("reading an archive again");
    return {};
}

Result<HostSource> open_host(const std::string& path)
{
    HostSource out{.start = UniqueFd(::open(path.c_str(), O_PATH | O_CLOEXEC))};
    if (!out.start) return fail_errno("opening {}", printable(path));
    struct stat st{};
    if (::fstat(out.start.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    out.directory = S_ISDIR(st.st_mode);
    if (!out.directory && !S_ISREG(st.st_mode))
        return fail(Code::Invalid, "{} is neither a directory nor a regular file", printable(path));
    out.size = out.directory ? 0 : static_cast<std::uint64_t>(st.st_size);
    return out;
}

Result<ByteSource> host_archive(UniqueFd start, const std::string& name)
{
    ArchiveOptions options;
    options.mounts = true;
    BERTH_TRY(auto opened, image::TreeReader::open(std::move(start), name, std::move(options), {}));
    // A function that is copied: its copies read on together.
    const auto reader = std::make_shared<image::TreeReader>(std::move(opened));
    return ByteSource([reader]() -> Result<std::string> {
        std::string piece;
        BERTH_CHECK(reader->read(piece, kPiece));
        return piece;
    });
}

Result<bool> holds_tree(int spool)
{
    BERTH_CHECK(rewind(spool));
    BERTH_TRY(auto reader, image::TarReader::open(spool, 1_GiB));
    image::TarEntry entry;
    BERTH_TRY(const bool any, reader.next(entry));
    BERTH_CHECK(rewind(spool));
    return !any || entry.kind == image::TarEntry::Kind::Directory;
}

Result<bool> is_host_directory(const std::string& path)
{
    struct stat st{};
    if (::stat(path.c_str(), &st) == 0) return S_ISDIR(st.st_mode);
    if (errno == ENOENT) return false;
    return fail_errno("looking at {}", printable(path));
}

Status unpack_tree(int spool, const CopyTarget& target, const ArchiveLimits& limits)
{
    BERTH_CHECK(rewind(spool));
    BERTH_TRY(auto members, image::check_archive(spool, limits));
    if (target.make && ::mkdir(target.directory.c_str(), 0777) != 0 && errno != EEXIST)
        return fail_errno("creating {}", printable(target.directory));
    // What is already there under the last name is entered only when it is a directory itself.
    const int follow = target.make ? O_NOFOLLOW : 0;
    const UniqueFd root(::open(target.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow));
    if (!root) return fail_errno("opening {}", printable(target.directory));
    image::ArchiveWriter writer(root.get(), std::move(members));
    BERTH_CHECK(writer.check());
    BERTH_CHECK(rewind(spool));
    return writer.write(spool, limits);
}

Status may_replace(int directory, const std::string& name)
{
    struct stat st{};
    if (::fstatat(directory, name.c_str(), &st, 0) != 0 || S_ISREG(st.st_mode)) return {};
    return fail(Code::Invalid,
                "{} is there and no regular file: to write into it, copy to - and redirect stdout",
                printable(name));
}

Status unpack_file(int spool, const CopyTarget& target, const ArchiveLimits& limits)
{
    BERTH_TRY(auto file, OneFile::open(spool, limits));
    const UniqueFd directory(::open(target.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", printable(target.directory));
    BERTH_CHECK(may_replace(directory.get(), target.name));
    const std::string beside = ".berth-" + random_hex(8);
    const UniqueFd out(::openat(directory.get(), beside.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out) return fail_errno("creating a file in {}", printable(target.directory));
    ScopeExit undo([&] { ::unlinkat(directory.get(), beside.c_str(), 0); });
    BERTH_CHECK(write_file(file, out.get()));
    if (const auto& mtime = file.entry().mtime) {
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, *mtime};
        (void)::futimens(out.get(), &times[0]); // a date no file system knows is not worth a failure
    }
    if (::fchmod(out.get(), image::extracted_mode(file.entry().mode, false)) != 0 ||
        ::renameat(directory.get(), beside.c_str(), directory.get(), target.name.c_str()) != 0)
        return fail_errno("writing {}", printable(join(target.directory, target.name)));
    undo.dismiss();
    return {};
}

Status pass_file(int spool, const ArchiveLimits& limits, const ByteSink& sink)
{
    BERTH_TRY(auto file, OneFile::open(spool, limits));
    std::int64_t at = 0;
    for (;;) {
        BERTH_TRY(const auto block, file.next());
        if (!block) return pass_zeros(file.entry().size - at, sink);
        BERTH_CHECK(pass_zeros(block->offset - at, sink));
        BERTH_CHECK(sink(block->bytes));
        at = block->offset + static_cast<std::int64_t>(block->bytes.size());
    }
}

Result<ByteSource> renamed_archive(UniqueFd spool, std::string name, const ArchiveLimits& limits)
{
    struct State {
        UniqueFd spool;
        OneFile file;
        std::string head;
        std::string tail;
    };
    BERTH_TRY(auto first, OneFile::open(spool.get(), limits));
    BERTH_TRY(const auto extents, extents_of(std::move(first)));
    BERTH_TRY(auto file, OneFile::open(spool.get(), limits));
    const auto& entry = file.entry();
    image::TarMember member{.name = std::move(name), .mode = static_cast<unsigned>(entry.mode)};
    member.size = static_cast<std::uint64_t>(entry.size);
    member.modified = entry.mtime.value_or(timespec{});
    std::uint64_t stored = 0;
    for (const auto& extent : extents) stored += extent.size;
    std::string head =
        stored == member.size ? image::tar::header(member) : image::tar::sparse_header(member, extents);
    std::string tail = image::tar::padding(stored) + image::tar::end();
    // A function that is copied: its copies read on together.
    const auto state =
        std::make_shared<State>(std::move(spool), std::move(file), std::move(head), std::move(tail));
    return ByteSource([state]() -> Result<std::string> {
        if (!state->head.empty()) return std::exchange(state->head, {});
        BERTH_TRY(const auto block, state->file.next());
        return block ? std::string(block->bytes) : std::exchange(state->tail, {});
    });
}

} // namespace berth::cli
