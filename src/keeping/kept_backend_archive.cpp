// Trees of files in and out of a sandbox. The caller's functions run on the pool,
// the sandbox's files are touched by a thread with the sandbox's rights.

#include <fcntl.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "image/archive_writer.hpp"
#include "image/tree_reader.hpp"
#include "keeping/kept_backend.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::keeping {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

/// A file without a name that is gone with its descriptor.
Result<UniqueFd> nameless_file(int directory)
{
    UniqueFd file(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file || (errno != EOPNOTSUPP && errno != EISDIR)) {
        if (!file) return fail_errno("making a temporary file");
        return file;
    }
    const std::string name = ".spool-" + random_hex(16);
    file.reset(::openat(directory, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("making a temporary file");
    ::unlinkat(directory, name.c_str(), 0);
    return file;
}

/// All of the source, since it is read twice: to be judged, and to be unpacked.
Result<UniqueFd> spool(int directory, const ByteSource& source, Bytes limit)
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
    if (::lseek(file.get(), 0, SEEK_SET) != 0) return fail_errno("reading an archive again");
    return file;
}

Status check_limits(const ArchiveLimits& limits)
{
    if (limits.input.count > 0 && limits.extracted.count > 0 && limits.members > 0) return {};
    return fail(Code::Invalid, "a limit of an archive must be more than 0");
}

} // namespace

Task<Status> KeptBackend::read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                                       ByteSink sink)
{
    BERTH_CO_TRY(const auto from, co_await trees_of(sandbox, directory.user));
    const auto stream = [&]() -> Status {
        const auto resolve = [&](int root) { return sys::resolve_in(root, directory.path); };
        BERTH_TRY(auto start, from.files.run(resolve));
        const sys::SandboxFiles& files = from.reader ? *from.reader : from.files;
        const std::string name = sys::last_component(directory.path);
        const auto begin = [&](int) {
            return image::TreeReader::open(std::move(start), name, std::move(options), from.ids);
        };
        BERTH_TRY(auto reader, files.run(begin));
        for (std::string piece;; piece.clear()) {
            BERTH_TRY(const bool more, files.run([&](int) { return reader.read(piece, kPiece); }));
            if (!piece.empty()) BERTH_CHECK(sink(piece));
            if (!more) return {};
        }
    };
    co_return co_await pool_.call(stream);
}

Task<Status> KeptBackend::write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                                        ArchiveLimits limits)
{
    BERTH_CO_TRY(const auto files, co_await files_of(sandbox, directory.user));
    const auto unpack = [&]() -> Status {
        BERTH_CHECK(check_limits(limits));
        BERTH_TRY(const auto archive, spool(spool_directory(), source, limits.input));
        BERTH_TRY(auto members, image::check_archive(archive.get(), limits));
        if (::lseek(archive.get(), 0, SEEK_SET) != 0) return fail_errno("reading an archive again");
        return files.run([&](int root) -> Status {
            BERTH_TRY(const auto top, sys::resolve_in(root, directory.path, O_DIRECTORY));
            image::ArchiveWriter writer(top.get(), std::move(members));
            BERTH_CHECK(writer.check());
            return writer.write(archive.get(), limits);
        });
    };
    co_return co_await pool_.call(unpack);
}

} // namespace berth::keeping
