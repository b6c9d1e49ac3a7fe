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

/// One file as an archive tells it: its entry, then its content with the holes filled.
class OneFile {
public:
    static Result<OneFile> open(int spool, const ArchiveLimits& limits)
    {
        BERTH_TRY(auto reader, image::TarReader::open(spool, image::stream_limit(limits)));
        OneFile out(std::move(reader), limits);
        BERTH_TRY(const bool any, out.reader_.next(out.entry_));
        if (!any || out.entry_.kind != image::TarEntry::Kind::File)
            return fail(Code::Invalid, "the sandbox gave something else than a file");
        if (out.entry_.size < 0 || static_cast<std::uint64_t>(out.entry_.size) > limits.extracted.count)
            return fail(Code::Exhausted, "the file is larger than {}", show(limits.extracted));
        return out;
    }

    [[nodiscard]] const image::TarEntry& entry() const { return entry_; }

    /// The next bytes, never more than the entry has told; none at the end.
    Result<std::string> next()
    {
        const std::int64_t left = entry_.size - at_;
        if (left == 0) return std::string{};
        if (!block_ && !ended_) {
            BERTH_TRY(block_, reader_.block());
            ended_ = !block_;
        }
        const std::int64_t data = block_ ? std::min(block_->offset, entry_.size) : entry_.size;
        std::string piece;
        if (data > at_) {
            piece.assign(std::min<std::size_t>(static_cast<std::size_t>(data - at_), kPiece), '\0');
        } else {
            piece = block_->bytes.substr(0, static_cast<std::size_t>(left));
            block_.reset();
            if (piece.empty()) return next();
        }
        at_ += static_cast<std::int64_t>(piece.size());
        return piece;
    }

private:
    OneFile(image::TarReader reader, const ArchiveLimits& limits)
        : reader_(std::move(reader)), limits_(limits)
    {
    }
    image::TarReader reader_;
    ArchiveLimits limits_;
    image::TarEntry entry_;
    std::optional<image::TarBlock> block_;
    std::int64_t at_ = 0;
    bool ended_ = false;
};

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

Status unpack_file(int spool, const CopyTarget& target, const ArchiveLimits& limits)
{
    BERTH_CHECK(rewind(spool));
    BERTH_TRY(auto file, OneFile::open(spool, limits));
    const UniqueFd directory(::open(target.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", printable(target.directory));
    const std::string beside = ".berth-" + random_hex(8);
    const UniqueFd out(::openat(directory.get(), beside.c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!out) return fail_errno("creating a file in {}", printable(target.directory));
    ScopeExit undo([&] { ::unlinkat(directory.get(), beside.c_str(), 0); });
    for (;;) {
        BERTH_TRY(const auto piece, file.next());
        if (piece.empty()) break;
        BERTH_CHECK(write_all(out.get(), piece));
    }
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
    BERTH_CHECK(rewind(spool));
    BERTH_TRY(auto file, OneFile::open(spool, limits));
    for (;;) {
        BERTH_TRY(const auto piece, file.next());
        if (piece.empty()) return {};
        BERTH_CHECK(sink(piece));
    }
}

Result<ByteSource> renamed_archive(UniqueFd spool, std::string name, const ArchiveLimits& limits)
{
    struct State {
        UniqueFd spool;
        OneFile file;
        std::string head;
        bool ended = false;
    };
    BERTH_CHECK(rewind(spool.get()));
    BERTH_TRY(auto file, OneFile::open(spool.get(), limits));
    const auto& entry = file.entry();
    image::TarMember member{.name = std::move(name), .mode = static_cast<unsigned>(entry.mode)};
    member.size = static_cast<std::uint64_t>(entry.size);
    member.modified = entry.mtime.value_or(timespec{});
    std::string head = image::tar::header(member);
    // A function that is copied: its copies read on together.
    const auto state = std::make_shared<State>(std::move(spool), std::move(file), std::move(head));
    return ByteSource([state]() -> Result<std::string> {
        if (!state->head.empty()) return std::exchange(state->head, {});
        BERTH_TRY(auto piece, state->file.next());
        if (!piece.empty() || state->ended) return piece;
        state->ended = true;
        const auto size = static_cast<std::uint64_t>(state->file.entry().size);
        return image::tar::padding(size) + image::tar::end();
    });
}

} // namespace berth::cli
