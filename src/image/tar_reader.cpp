// The only file that knows libarchive. Two of its readers in a row: the first takes off the compression, the
// second reads tar from the first, and what passes between them is counted.
//
// No locale is ever set in our programs, so libarchive hands names over byte for byte: where it cannot
// convert a pax name to the (ASCII) locale it warns and keeps the raw bytes, which are what we want.

#include "image/tar_reader.hpp"

#include <archive.h>
#include <archive_entry.h>

#include "base/strings.hpp"

namespace berth::image {

namespace {

/// Long names, pax records and sparse maps of one entry, with the read-ahead of the decompressor.
constexpr Bytes kLargestHeader = 8_MiB;
constexpr std::size_t kReadSize = 256u << 10;
constexpr std::size_t kMostXattrs = 128;

using Handle = std::unique_ptr<archive, decltype([](archive* a) { ::archive_read_free(a); })>;

std::string reason(archive* a)
{
    const char* text = ::archive_error_string(a);
    return text == nullptr ? "unknown reason" : printable(text);
}

TarEntry::Kind kind_of(archive_entry* entry)
{
    if (::archive_entry_hardlink(entry) != nullptr) return TarEntry::Kind::Hardlink;
    switch (::archive_entry_filetype(entry)) {
    case AE_IFREG: return TarEntry::Kind::File;
    case AE_IFDIR: return TarEntry::Kind::Directory;
    case AE_IFLNK: return TarEntry::Kind::Symlink;
    case AE_IFIFO: return TarEntry::Kind::Fifo;
    case AE_IFSOCK: return TarEntry::Kind::Socket;
    case AE_IFCHR: return TarEntry::Kind::CharDevice;
    case AE_IFBLK: return TarEntry::Kind::BlockDevice;
    default: return TarEntry::Kind::Other;
    }
}

std::string text_or_empty(const char* text) { return text == nullptr ? std::string() : std::string(text); }

std::vector<TarEntry::Xattr> xattrs_of(archive_entry* entry)
{
    std::vector<TarEntry::Xattr> all;
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    ::archive_entry_xattr_reset(entry);
    while (all.size() < kMostXattrs && ::archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK)
        all.push_back({text_or_empty(name), value == nullptr
                                                ? std::string()
                                                : std::string(static_cast<const char*>(value), size)});
    return all;
}

} // namespace

struct TarReader::Impl {
    Handle packed{::archive_read_new()};
    Handle tar{::archive_read_new()};
    Sha256* digest = nullptr;
    std::uint64_t stream_limit = 0;
    std::uint64_t stream = 0;
    std::uint64_t header = 0;
    bool in_header = false;
    bool in_entry = false;
    std::optional<Error> refused; ///< why the meter stopped the stream

    static la_ssize_t read(archive* tar, void* self, const void** bytes)
    {
        return static_cast<Impl*>(self)->pass(tar, bytes);
    }

    la_ssize_t pass(archive* reader, const void** bytes)
    {
        std::size_t size = 0;
        la_int64_t offset = 0;
        const int got = ::archive_read_data_block(packed.get(), bytes, &size, &offset);
        if (got == ARCHIVE_EOF) return 0;
        if (got < ARCHIVE_WARN) return stop(reader, Code::Invalid, reason(packed.get()));
        stream += size;
        if (stream > stream_limit)
            return stop(reader, Code::Exhausted,
                        fmt::format("it unpacks to more than {}", show(Bytes{stream_limit})));
        if (digest != nullptr) digest->update({static_cast<const char*>(*bytes), size});
        if (in_header) header += size;
        if (header > kLargestHeader.count)
            return stop(reader, Code::Exhausted,
                        fmt::format("the description of one entry is larger than {}", show(kLargestHeader)));
        return static_cast<la_ssize_t>(size);
    }

    la_ssize_t stop(archive* reader, Code code, const std::string& why)
    {
        refused = Error{.code = code, .message = "tar archive: " + why};
        ::archive_set_error(reader, EIO, "stopped");
        return -1;
    }

    std::unexpected<Error> failure() const
    {
        if (refused) return std::unexpected(*refused);
        return fail(Code::Invalid, "tar archive: {}", reason(tar.get()));
    }

    /// Formats and filters by name, one by one: "all" would link and accept far more.
    Status begin(int fd)
    {
        ::archive_read_support_filter_gzip(packed.get());
        ::archive_read_support_filter_zstd(packed.get());
        ::archive_read_support_filter_xz(packed.get());
        ::archive_read_support_filter_bzip2(packed.get());
        ::archive_read_support_format_raw(packed.get());
        ::archive_read_support_format_empty(packed.get());
        archive_entry* whole = nullptr;
        if (::archive_read_open_fd(packed.get(), fd, kReadSize) != ARCHIVE_OK)
            return fail(Code::Invalid, "tar archive: {}", reason(packed.get()));
        const int got = ::archive_read_next_header(packed.get(), &whole);
        if (got == ARCHIVE_EOF) return fail(Code::Invalid, "tar archive: it is empty");
        if (got < ARCHIVE_WARN) return fail(Code::Invalid, "tar archive: {}", reason(packed.get()));
        // The last filter is the file itself.
        if (::archive_filter_count(packed.get()) > 2)
            return fail(Code::Invalid, "tar archive: it is compressed more than once");

        ::archive_read_support_format_tar(tar.get());
        in_header = true;
        if (::archive_read_open(tar.get(), this, nullptr, &Impl::read, nullptr) != ARCHIVE_OK)
            return failure();
        return {};
    }
};

TarReader::TarReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;
TarReader::~TarReader() = default;

Result<TarReader> TarReader::open(int fd, Bytes stream_limit, Sha256* digest)
{
    auto impl = std::make_unique<Impl>();
    if (!impl->packed || !impl->tar) return fail(Code::Exhausted, "no memory to read a tar archive");
    impl->digest = digest;
    impl->stream_limit = stream_limit.count;
    BERTH_CHECK(impl->begin(fd));
    return TarReader(std::move(impl));
}

Result<bool> TarReader::next(TarEntry& entry)
{
    // Skipped here, or libarchive would do it below and the meter take it for a header.
    if (impl_->in_entry && ::archive_read_data_skip(impl_->tar.get()) < ARCHIVE_WARN) return impl_->failure();

    impl_->header = 0;
    impl_->in_header = true;
    archive_entry* found = nullptr;
    const int got = ::archive_read_next_header(impl_->tar.get(), &found);
    impl_->in_header = false;
    if (impl_->refused) return impl_->failure();
    if (got == ARCHIVE_EOF) return false;
    if (got != ARCHIVE_OK && got != ARCHIVE_WARN) return impl_->failure();
    impl_->in_entry = true;

    entry.kind = kind_of(found);
    entry.name = text_or_empty(::archive_entry_pathname(found));
    entry.target = text_or_empty(entry.kind == TarEntry::Kind::Hardlink ? ::archive_entry_hardlink(found)
                                                                        : ::archive_entry_symlink(found));
    entry.mode = ::archive_entry_perm(found) & 07777;
    entry.uid = ::archive_entry_uid(found);
    entry.gid = ::archive_entry_gid(found);
    entry.size = ::archive_entry_size(found);
    entry.major = static_cast<unsigned>(::archive_entry_rdevmajor(found));
    entry.minor = static_cast<unsigned>(::archive_entry_rdevminor(found));
    entry.mtime.reset();
    if (::archive_entry_mtime_is_set(found) != 0) {
        const long ns = ::archive_entry_mtime_nsec(found);
        entry.mtime = timespec{::archive_entry_mtime(found), ns >= 0 && ns < 1'000'000'000 ? ns : 0};
    }
    entry.xattrs = xattrs_of(found);
    return true;
}

Result<std::optional<TarBlock>> TarReader::block()
{
    const void* bytes = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    const int got = ::archive_read_data_block(impl_->tar.get(), &bytes, &size, &offset);
    if (got == ARCHIVE_EOF) return std::nullopt;
    if (got != ARCHIVE_OK) return impl_->failure();
    return TarBlock{.offset = offset, .bytes = std::string_view(static_cast<const char*>(bytes), size)};
}

Status TarReader::drain()
{
    for (;;) {
        const void* bytes = nullptr;
        const la_ssize_t size = impl_->pass(impl_->tar.get(), &bytes);
        if (size < 0) return impl_->failure();
        if (size == 0) return {};
    }
}

} // namespace berth::image
