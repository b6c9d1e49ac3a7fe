#include "keeping/exec_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace berth::keeping {
namespace {

using keeper::Kind;
using keeper::Record;

constexpr const char* kStreamNames[2] = {"out", "err"};

Result<UniqueFd> open_at(int directory, const char* name, int flags)
{
    UniqueFd fd(::openat(directory, name, flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!fd) return fail_errno("opening {} of an exec log", name);
    return fd;
}

Result<std::uint64_t> size_of(int fd, std::string_view what)
{
    struct stat st{};
    if (::fstat(fd, &st) != 0) return fail_errno("looking at {} of an exec log", what);
    return static_cast<std::uint64_t>(st.st_size);
}

Status write_at(int fd, const void* bytes, std::size_t size, std::uint64_t at)
{
    const ssize_t n = ::pwrite(fd, bytes, size, static_cast<off_t>(at));
    if (n < 0) return fail_errno("writing the index of an exec log");
    if (static_cast<std::size_t>(n) != size)
        return fail(Code::Exhausted, "writing the index of an exec log: no space left");
    return {};
}

/// Where the records of a log end, and how far they speak of each stream.
struct Extent {
    std::uint64_t records = 0;
    std::uint64_t bytes[2] = {};
    bool started = false, exited = false, closed = false;
};

void count(Extent& extent, const Record& r)
{
    ++extent.records;
    extent.started = extent.started || r.kind == Kind::Start;
    extent.exited = extent.exited || r.kind == Kind::Exit;
    extent.closed = extent.closed || r.kind == Kind::Closed;
    const int stream = keeper::stream_of(r.kind == Kind::Gap ? static_cast<Kind>(r.status) : r.kind);
    const bool unknown = r.kind == Kind::Gap && r.length == keeper::kLengthUnknown;
    if (stream >= 0 && !unknown) extent.bytes[stream] = std::max(extent.bytes[stream], r.offset + r.length);
}

/// Nothing of before is left in it.
Status begin_again(int index)
{
    keeper::IndexHead fresh{};
    fresh.magic = keeper::kIndexMagic;
    if (::ftruncate(index, 0) != 0) return fail_errno("emptying the index of an exec log");
    return write_at(index, &fresh, sizeof fresh, 0);
}

/// It can be read, and no keeper would have written it.
bool is_damaged(const Error& error) { return error.code == Code::Internal && !error.sys; }

} // namespace

Result<ExecLog> ExecLog::create(int directory, Streams streams)
{
    constexpr int flags = O_RDWR | O_CREAT | O_EXCL;
    ExecLog log;
    BERTH_TRY(log.index_, open_at(directory, "index", flags));
    const int count = streams == Streams::Terminal ? 1 : 2;
    for (int s = 0; s < count; ++s) {
        BERTH_TRY(log.streams_[s], open_at(directory, kStreamNames[s], flags));
    }
    return log;
}

Result<ExecLog> ExecLog::open(int directory, Access access)
{
    const int flags = access == Access::Repair ? O_RDWR : O_RDONLY;
    ExecLog log;
    BERTH_TRY(log.index_, open_at(directory, "index", flags));
    BERTH_TRY(log.streams_[0], open_at(directory, "out", flags));
    auto err = open_at(directory, "err", flags);
    if (err)
        log.streams_[1] = *std::move(err);
    else if (err.error().code != Code::NotFound)
        return std::unexpected(std::move(err).error());
    return log;
}

ssize_t ExecLog::read_at(int fd, void* into, std::size_t size, std::uint64_t at) const noexcept
{
    const iovec place{.iov_base = into, .iov_len = size};
    return ::preadv2(fd, &place, 1, static_cast<off_t>(at), at_once_ ? RWF_NOWAIT : 0);
}

Result<keeper::IndexHead> ExecLog::head() const
{
    keeper::IndexHead head{};
    const ssize_t n = read_at(index_.get(), &head, sizeof head, 0);
    if (n < 0) return fail_errno("reading the index of an exec log");
    if (n == 0) return fail(Code::NotFound, "the exec log is empty: nothing was started into it");
    if (n != sizeof head || !keeper::good_head(head))
        return fail(Code::Internal, "the index of an exec log has no valid head");
    return head;
}

Result<std::vector<Record>> parse_records(std::string_view bytes, std::uint64_t from)
{
    std::vector<Record> records(bytes.size() / sizeof(Record));
    if (!records.empty()) std::memcpy(records.data(), bytes.data(), records.size() * sizeof(Record));
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].kind == Kind::None) { // a hole in a file that is being written
            records.resize(i);
            break;
        }
        if (!keeper::good_record(records[i], from + i))
            return fail(Code::Internal, "record {} of an exec log is damaged", from + i);
    }
    return records;
}

Result<std::vector<Record>> ExecLog::records(std::uint64_t from, std::size_t count) const
{
    if (from > ~std::uint64_t{0} >> 8) return fail(Code::Invalid, "no exec log has a record {}", from);
    std::string bytes(count * sizeof(Record), '\0');
    const ssize_t n = read_at(index_.get(), bytes.data(), bytes.size(), keeper::record_at(from));
    if (n < 0) return fail_errno("reading the index of an exec log");
    return parse_records(std::string_view(bytes).substr(0, static_cast<std::size_t>(n)), from);
}

Result<bool> ExecLog::closed() const
{
    BERTH_TRY(const std::uint64_t size, size_of(index_.get(), "index"));
    if (size < keeper::record_at(1)) return false;
    const std::uint64_t last = (size - keeper::record_at(0)) / sizeof(Record) - 1;
    BERTH_TRY(const auto found, records(last, 1));
    return !found.empty() && found.front().kind == Kind::Closed;
}

/// A machine that goes down may tear the end of an index, or all of it: that costs what it told, and not the
/// sandbox, which would not start again otherwise.
Status ExecLog::repair(WallTime now)
{
    BERTH_TRY(const std::uint64_t index_size, size_of(index_.get(), "index"));
    bool torn = false; // with its head it is lost which bytes there are
    if (index_size < sizeof(keeper::IndexHead)) {
        // The keeper died before it wrote the head, or while it did: nothing else can be there.
        BERTH_CHECK(begin_again(index_.get()));
    } else if (const auto found = head(); !found) {
        if (!is_damaged(found.error())) return std::unexpected(found.error());
        torn = true;
        BERTH_CHECK(begin_again(index_.get()));
    }

    Extent extent;
    for (std::size_t at_once = 1024;;) {
        const auto some = records(extent.records, at_once);
        if (!some && !is_damaged(some.error())) return std::unexpected(some.error());
        if (!some && at_once == 1) break;
        if (!some) {
            at_once = 1; // those before the damaged one
            continue;
        }
        if (some->empty()) break;
        for (const Record& r : *some) count(extent, r);
    }
    // What stands behind them was torn, by the machine or by the death of the keeper.
    if (index_size > keeper::record_at(extent.records) &&
        ::ftruncate(index_.get(), static_cast<off_t>(keeper::record_at(extent.records))) != 0)
        return fail_errno("cutting off the index of an exec log");
    if (extent.closed) return {};

    const auto append = [&](Kind kind, std::uint64_t offset, std::uint32_t length, int status) -> Status {
        const Record r{.offset = offset,
                       .time = static_cast<std::uint64_t>(now.time_since_epoch().count()),
                       .length = length,
                       .sequence = static_cast<std::uint32_t>(extent.records),
                       .kind = kind,
                       .reserved = 0,
                       .status = status};
        BERTH_CHECK(write_at(index_.get(), &r, sizeof r, keeper::record_at(extent.records)));
        ++extent.records;
        return {};
    };
    if (!extent.started) BERTH_CHECK(append(Kind::Start, 0, 0, 0));
    if (torn)
        BERTH_CHECK(append(Kind::Gap, 0, keeper::kLengthUnknown,
                           static_cast<int>(terminal() ? Kind::Pty : Kind::Out)));
    for (int s = 0; !torn && s < (terminal() ? 1 : 2); ++s) {
        BERTH_TRY(const std::uint64_t size, size_of(streams_[s].get(), kStreamNames[s]));
        const Kind kind = terminal() ? Kind::Pty : s == 0 ? Kind::Out : Kind::Err;
        for (std::uint64_t at = extent.bytes[s]; at < size;) {
            const auto part =
                static_cast<std::uint32_t>(std::min<std::uint64_t>(size - at, keeper::kMaxRecordBytes));
            BERTH_CHECK(append(kind, at, part, 0));
            at += part;
        }
    }
    if (!extent.exited) BERTH_CHECK(append(Kind::Exit, 0, 0, keeper::kStatusUnknown));
    return append(Kind::Closed, 0, 0, 0);
}

Status ExecLog::sync() const
{
    for (const int fd : {streams_[0].get(), streams_[1].get(), index_.get()})
        if (fd >= 0 && ::fdatasync(fd) != 0) return fail_errno("syncing an exec log");
    return {};
}

} // namespace berth::keeping
