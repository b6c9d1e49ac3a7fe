#include "keeping/log_writer.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace berth::keeping {

namespace {

using keeper::Kind;
using keeper::Record;

using keeper::head_size;

constexpr std::uint64_t kPage = keeper::kLogPage;
constexpr std::uint64_t kHoleStep = 1 << 20;

Status write_at(int fd, const void* bytes, std::size_t size, std::uint64_t at)
{
    const auto* from = static_cast<const char*>(bytes);
    while (size > 0) {
        const ssize_t n = ::pwrite(fd, from, size, static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("writing an exec log");
        if (n == 0) return fail(Code::Exhausted, "writing an exec log: no space left");
        from += n;
        at += static_cast<std::uint64_t>(n);
        size -= static_cast<std::size_t>(n);
    }
    return {};
}

} // namespace

Result<LogWriter> LogWriter::begin(ExecLog log, Bytes limit)
{
    LogWriter out(std::move(log));
    limit.count = std::min(limit.count, keeper::kMaxLogLimit);
    out.limit_ = limit.count;
    keeper::IndexHead head{};
    head.magic = keeper::kIndexMagic;
    head.limit = limit.count;
    head.gap_start[0] = head.gap_start[1] = head_size(limit.count);
    BERTH_CHECK(write_at(out.log_.index(), &head, sizeof head, 0));
    return out;
}

Result<LogWriter> LogWriter::go_on(ExecLog log)
{
    LogWriter out(std::move(log));
    BERTH_TRY(const auto head, out.log_.head());
    out.limit_ = head.limit;
    for (int s = 0; s < 2; ++s) out.punched_[s] = head.gap_end[s];
    for (;;) {
        BERTH_TRY(const auto some, out.log_.records(out.records_, 1024));
        if (some.empty()) return out;
        for (const Record& r : some) {
            ++out.records_;
            if (r.kind == Kind::Start) out.pid_ = r.status;
            if (r.kind == Kind::Exit) out.exited_ = true;
            if (r.kind == Kind::Closed) out.closed_ = true;
            const int stream = keeper::stream_of(r.kind);
            if (stream >= 0) out.bytes_[stream] = std::max(out.bytes_[stream], r.offset + r.length);
        }
    }
}

Status LogWriter::append(Kind kind, std::uint64_t offset, std::uint32_t length, int status)
{
    const Record record{.offset = offset,
                        .time = static_cast<std::uint64_t>(system_clock().now().time_since_epoch().count()),
                        .length = length,
                        .sequence = static_cast<std::uint32_t>(records_),
                        .kind = kind,
                        .reserved = 0,
                        .status = status};
    BERTH_CHECK(write_at(log_.index(), &record, sizeof record, keeper::record_at(records_)));
    ++records_;
    return {};
}

Status LogWriter::start(int pid)
{
    pid_ = pid;
    return append(Kind::Start, 0, 0, pid);
}

Status LogWriter::output(Kind kind, std::string_view bytes)
{
    const int stream = keeper::stream_of(kind);
    if (stream < 0 || log_.stream(stream) < 0)
        return fail(Code::Invalid, "output of a stream that the exec does not have");
    while (!bytes.empty()) {
        const auto part = bytes.substr(0, keeper::record_bytes(limit_, bytes_[stream], bytes.size()));
        const auto size = static_cast<std::uint32_t>(part.size());
        if (!holes_ && bytes_[stream] >= limit_) {
            BERTH_CHECK(append(Kind::Gap, bytes_[stream], size, static_cast<int>(kind)));
        } else {
            // Bytes first: a record that is there has its bytes there.
            BERTH_CHECK(write_at(log_.stream(stream), part.data(), part.size(), bytes_[stream]));
            BERTH_CHECK(append(kind, bytes_[stream], size, 0));
        }
        bytes_[stream] += size;
        bytes.remove_prefix(size);
        BERTH_CHECK(bound(stream));
    }
    return {};
}

/// Keeps head and tail: tells the new end of the gap, then makes the hole, so that a reader who looks at the
/// head after reading never takes zeros for bytes.
Status LogWriter::bound(int stream)
{
    if (!holes_) return {};
    const std::uint64_t head = head_size(limit_);
    const std::uint64_t step = std::min(limit_ / 4 / kPage * kPage, kHoleStep);
    if (bytes_[stream] <= limit_ + step) return {};
    const std::uint64_t end = (bytes_[stream] - (limit_ - head)) / kPage * kPage;
    const std::uint64_t from = punched_[stream] != 0 ? punched_[stream] : head;
    if (end < from + step) return {};
    const auto field = offsetof(keeper::IndexHead, gap_end) + sizeof end * static_cast<std::size_t>(stream);
    BERTH_CHECK(write_at(log_.index(), &end, sizeof end, field));
    if (::fallocate(log_.stream(stream), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                    static_cast<off_t>(end - from)) != 0) {
        // No holes here: what is stored stays, and from now on nothing is added.
        holes_ = false;
        return write_at(log_.index(), &punched_[stream], sizeof end, field);
    }
    punched_[stream] = end;
    return {};
}

Status LogWriter::gap()
{
    const Kind kind = log_.terminal() ? Kind::Pty : Kind::Out;
    return append(Kind::Gap, bytes_[0], keeper::kLengthUnknown, static_cast<int>(kind));
}

Status LogWriter::exit(int status)
{
    if (exited_) return {};
    exited_ = true;
    return append(Kind::Exit, 0, 0, status);
}

Status LogWriter::close()
{
    if (closed_) return {};
    closed_ = true;
    return append(Kind::Closed, 0, 0, 0);
}

} // namespace berth::keeping
