#include "keeping/exec_follower.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

namespace berth::keeping {
namespace {

using keeper::Kind;
using keeper::Record;
using namespace std::chrono_literals;

constexpr std::size_t kRecordsAtOnce = 256;
constexpr std::uint64_t kBytesAtOnce = 256 * 1024;
constexpr auto kPollInterval = 20ms; // without a keeper nobody wakes us
// A busy exec is read in larger pieces when the reader lets a moment pass first.
constexpr auto kBreath = 250us;

ExecEvent::Kind kind_of(Kind kind)
{
    switch (kind) {
    case Kind::Out: return ExecEvent::Kind::Stdout;
    case Kind::Err: return ExecEvent::Kind::Stderr;
    case Kind::Pty: return ExecEvent::Kind::Pty;
    case Kind::Exit: return ExecEvent::Kind::Exit;
    case Kind::Closed: return ExecEvent::Kind::Closed;
    case Kind::Gap: return ExecEvent::Kind::Gap;
    default: return ExecEvent::Kind::Start;
    }
}

/// Fewer bytes than asked for only where the file ends.
Result<std::string> read_range(const ExecLog& log, int stream, std::uint64_t from, std::uint64_t size)
{
    std::string bytes;
    int failed = 0;
    bytes.resize_and_overwrite(size, [&](char* into, std::size_t) -> std::size_t {
        std::size_t have = 0;
        while (have < size) {
            const ssize_t n = log.read_at(log.stream(stream), into + have, size - have, from + have);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) failed = errno;
            if (n <= 0) break;
            have += static_cast<std::size_t>(n);
        }
        return have;
    });
    if (failed != 0) return fail_with(failed, "reading {} bytes at {} of an exec log", size, from);
    return bytes;
}

ExecEvent& add(std::vector<ExecEvent>& events, std::uint64_t sequence, const Record& r)
{
    ExecEvent& event = events.emplace_back();
    event.sequence = sequence;
    event.kind = kind_of(r.kind);
    event.time = WallTime(std::chrono::nanoseconds(r.time));
    return event;
}

/// A new event, or a longer one when the last is a gap already.
void add_gap(std::vector<ExecEvent>& events, std::uint64_t sequence, const Record& r, std::uint64_t size)
{
    if (size == 0) return;
    if (events.empty() || events.back().kind != ExecEvent::Kind::Gap)
        add(events, sequence, r).kind = ExecEvent::Kind::Gap;
    events.back().sequence = sequence;
    events.back().gap_bytes += size;
}

} // namespace

Result<ExecFollower> ExecFollower::read(ExecLog log, std::uint64_t from)
{
    return ExecFollower(std::move(log), from);
}

Result<ExecFollower> ExecFollower::follow(ExecLog log, std::uint64_t exec, std::uint64_t from,
                                          KeeperClient keeper)
{
    ExecFollower follower(std::move(log), from);
    follower.wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!follower.wake_) return fail_errno("making an eventfd to follow exec {}", exec);
    // First to be woken, then to read: a record written between the two is not missed.
    BERTH_CHECK(keeper.follow(exec, follower.wake_.get()));
    follower.keeper_ = std::move(keeper);
    return follower;
}

Result<std::vector<ExecEvent>> ExecFollower::next(Deadline until)
{
    const bool was_gone = gone_;
    for (bool last = false;; last = std::chrono::steady_clock::now() >= until) {
        if (ended_) return std::vector<ExecEvent>{};
        BERTH_TRY(auto events, take());
        // The death of a keeper is told at once, but after everything it wrote.
        if (!events.empty() || last || gone_ != was_gone) return events;
        BERTH_CHECK(wait(until));
    }
}

UniqueFd attend_log(const ExecLog& log)
{
    // A description of our own: the keeper has the starter's, and a lock on that would outlive us.
    UniqueFd own(::open(fmt::format("/proc/self/fd/{}", log.index()).c_str(), O_RDWR | O_CLOEXEC));
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_start = offsetof(keeper::IndexHead, taken);
    range.l_len = sizeof(keeper::IndexHead::taken);
    if (!own || ::fcntl(own.get(), F_OFD_SETLK, &range) != 0) own.reset();
    return own;
}

void ExecFollower::attend(UniqueFd attendance)
{
    if (position_ == 0 && !attendance_) attendance_ = std::move(attendance);
}

/// All that was given by now.
void ExecFollower::tell_taken()
{
    const std::uint64_t taken = reached_[0] + reached_[1];
    if (!attendance_ || taken == told_) return;
    told_ = taken;
    // Where it cannot be told the command would wait for ever.
    if (::pwrite(attendance_.get(), &told_, sizeof told_, offsetof(keeper::IndexHead, taken)) != sizeof told_)
        attendance_.reset();
}

Result<bool> ExecFollower::overdue() const
{
    BERTH_TRY(const auto head, log_.head());
    return head.overdue != 0;
}

std::optional<Result<std::vector<ExecEvent>>> ExecFollower::next_at_once()
{
    if (waits_) return std::nullopt;
    const auto reached = reached_;
    log_.read_at_once(true);
    auto events = next(std::chrono::steady_clock::now());
    log_.read_at_once(false);
    if (events) return events;
    const int why = events.error().sys.value();
    if (why != EAGAIN && why != EOPNOTSUPP) return events;
    waits_ = why == EOPNOTSUPP;
    reached_ = reached; // none of it was delivered
    ended_ = false;
    return std::nullopt;
}

Result<std::vector<ExecEvent>> ExecFollower::take()
{
    tell_taken();
    std::vector<ExecEvent> events;
    BERTH_TRY(const auto records, log_.records(position_, kRecordsAtOnce));
    busy_ = records.size() >= 8;
    std::uint64_t taken = 0;
    for (std::size_t i = 0; i < records.size() && taken < kBytesAtOnce && !ended_;) {
        const Record& r = records[i];
        if (keeper::stream_of(r.kind) >= 0) {
            std::size_t end = i;
            std::uint64_t size = 0;
            do size += records[end++].length;
            while (end < records.size() && records[end].kind == r.kind && size < kBytesAtOnce &&
                   records[end].offset == r.offset + size);
            BERTH_CHECK(take_stream(records, i, end, events));
            taken += size;
            i = end;
            continue;
        }
        const std::uint64_t sequence = position_ + i;
        if (r.kind == Kind::Gap && r.length == keeper::kLengthUnknown) {
            add(events, sequence, r);
        } else if (r.kind == Kind::Gap) {
            const int stream = keeper::stream_of(static_cast<Kind>(r.status));
            if (r.offset < reached_[stream])
                return fail(Code::Internal, "record {} of an exec log goes back", sequence);
            reached_[stream] = r.offset + r.length;
            add_gap(events, sequence, r, r.length);
        } else {
            ExecEvent& event = add(events, sequence, r);
            if (r.kind == Kind::Exit && r.status != keeper::kStatusUnknown)
                event.status = ExitStatus::from_wait(r.status);
            ended_ = r.kind == Kind::Closed;
        }
        ++i;
    }
    if (!events.empty()) position_ = events.back().sequence + 1;
    return events;
}

/// Records [first, last) of one stream, in one read. The head of the index is looked at after it:
/// what lies below the end of the gap by then may be zeros of the hole and is told as a gap.
Status ExecFollower::take_stream(const std::vector<Record>& records, std::size_t first, std::size_t last,
                                 std::vector<ExecEvent>& events)
{
    const int stream = keeper::stream_of(records[first].kind);
    const std::uint64_t begin = records[first].offset;
    const std::uint64_t end = records[last - 1].offset + records[last - 1].length;
    if (begin < reached_[stream])
        return fail(Code::Internal, "record {} of an exec log goes back", position_ + first);
    if (log_.stream(stream) < 0)
        return fail(Code::Internal, "record {} of an exec log speaks of a file that is not there",
                    position_ + first);
    reached_[stream] = end;

    BERTH_TRY(auto head, log_.head());
    // A range inside the gap, which may be gigabytes of it, need not be read to be told.
    std::string bytes;
    if (begin < head.gap_start[stream] || end > head.gap_end[stream]) {
        BERTH_TRY(bytes, read_range(log_, stream, begin, end - begin));
        BERTH_TRY(head, log_.head());
    }
    const std::uint64_t have = begin + bytes.size(); // less than `end` only after a crash of the machine
    // A record has one number, with which a reader comes back behind it: it is there or it is not.
    const auto gone = [&](const Record& r) {
        const std::uint64_t to = r.offset + r.length;
        return to > have || (r.offset < head.gap_end[stream] && to > head.gap_start[stream]);
    };
    for (std::size_t i = first; i < last;) {
        const Record& r = records[i];
        const bool missing = gone(r);
        std::uint64_t size = 0;
        do size += records[i++].length;
        while (i < last && gone(records[i]) == missing);
        const std::uint64_t sequence = position_ + i - 1;
        if (missing)
            add_gap(events, sequence, r, size);
        else
            add(events, sequence, r).bytes =
                size == bytes.size() ? std::move(bytes) : bytes.substr(r.offset - begin, size);
    }
    return {};
}

Status ExecFollower::wait(Deadline until)
{
    const auto now = std::chrono::steady_clock::now();
    const auto remaining = std::max<std::chrono::nanoseconds>(until - now, 0ns);
    if (!keeper_ || gone_) {
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(kPollInterval, remaining));
        return {};
    }
    if (busy_ && remaining > kBreath) std::this_thread::sleep_for(kBreath);
    busy_ = false;
    pollfd waiting[2] = {{wake_.get(), POLLIN, 0}, {keeper_->socket(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining).count();
    const int ready = ::poll(waiting, 2, static_cast<int>(std::min<long long>(left, 1 << 30)));
    if (ready < 0 && errno != EINTR) return fail_errno("waiting for an exec log");
    if (ready <= 0) return {};
    std::uint64_t count = 0;
    if (waiting[0].revents != 0 && ::read(wake_.get(), &count, sizeof count) < 0 && errno != EAGAIN)
        return fail_errno("clearing the eventfd of a follower");
    // Nothing is asked on this connection: whatever comes on it is its end.
    if (waiting[1].revents != 0) gone_ = true;
    return {};
}

} // namespace berth::keeping
