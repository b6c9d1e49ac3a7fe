// The log of an exec. Everything that comes through a pipe is hostile in amount only: it is never
// interpreted. What bounds it: the head-and-tail limit of the bytes, the pace of the records.

#include "keeper/output.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/ioctl.h>

#include "keeper/clients.hpp"

namespace berth::keeper {
namespace {

constexpr std::size_t kBuffer = 65536;
constexpr u64 kPage = kLogPage;
constexpr u64 kTail = kPage; // of the index, kept for what is told last: gaps, exit, closed
constexpr u64 kNoPromise = ~u64{0};
constexpr u64 kHoleStep = 1 << 20;
constexpr int kWidePipe = 1 << 20;
constexpr std::size_t kMove = 262144; // at once
constexpr int kSmallRead = 4096;
constexpr u64 kRest = 200'000;       // ns, after a small read
constexpr u64 kLongRest = 5'000'000; // ns, once the index is long
constexpr u64 kLongIndex = 100'000;  // records
constexpr u64 kRetry = 100'000'000;  // ns, after the disk refused something
constexpr u64 kPipesLeft = 4 << 20;  // more than two wide pipes
constexpr u64 kAwait = 500'000;      // ns, until a reader who attends is looked at again
constexpr u64 kPtyBacklog = 131072;  // more than the kernel buffers for a terminal

char buffer[kBuffer];

/// Room for one more record, and for the tail after it. False: the disk is full, and the tail is left alone.
bool reserve(Exec& x)
{
    const u64 want = record_at(x.records + 1) + kTail;
    if (want <= x.reserved) return true;
    const u64 end = (want + kPage) / kPage * kPage;
    long done = 0;
    do done = call(SYS_fallocate, x.index, FALLOC_FL_KEEP_SIZE, x.reserved, end - x.reserved);
    while (done == -EINTR);
    if (done == -EOPNOTSUPP || done == -ENOSYS) {
        x.reserved = kNoPromise; // such a disk refuses when it refuses
        return true;
    }
    if (done == 0) x.reserved = end;
    return done == 0;
}

/// What was promised and not needed.
void give_back(const Exec& x)
{
    const u64 end = (record_at(x.records) + kPage - 1) / kPage * kPage;
    if (x.reserved == kNoPromise || x.reserved <= end) return;
    call(SYS_fallocate, x.index, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, end, x.reserved - end);
}

bool append(Exec& x, Kind kind, u64 offset, std::uint32_t length, int status)
{
    const Record record{offset, wall_ns(), length, static_cast<std::uint32_t>(x.records), kind, 0, status};
    // A record is whole or not there: a torn one is written again at the same place.
    if (call(SYS_pwrite64, x.index, &record, sizeof record, record_at(x.records)) != sizeof record)
        return false;
    ++x.records;
    wake_followers(x.id);
    return true;
}

/// Of `n` bytes that are in the file behind those told: how many have a record now.
u64 tell_bytes(Exec& x, int stream, u64 n)
{
    u64 told = 0;
    while (told < n && reserve(x)) {
        const u64 part = record_bytes(x.limit, x.bytes[stream], n - told);
        if (!append(x, kind_of(x, stream), x.bytes[stream], static_cast<std::uint32_t>(part), 0)) break;
        x.bytes[stream] += part;
        told += part;
    }
    return told;
}

/// Bytes [bytes, bytes + n) of the stream are gone.
void lose(Exec& x, int stream, u64 n)
{
    if (!x.gap_open[stream]) x.gap_from[stream] = x.bytes[stream];
    x.gap_open[stream] = true;
    x.bytes[stream] += n;
    x.lost += n;
}

bool tell_start(Exec& x)
{
    if (!x.start_told) x.start_told = append(x, Kind::Start, 0, 0, x.pid);
    return x.start_told;
}

/// What is told now is told for the last time before the exit, or before the end.
bool telling_last(const Exec& x)
{
    if (x.state == State::Running) return false;
    return !x.exit_told || (x.source[0] < 0 && x.source[1] < 0);
}

bool tell_gap(Exec& x, int stream)
{
    if (!tell_start(x)) return false;
    while (x.gap_open[stream]) {
        if (!telling_last(x) && !reserve(x)) return false; // it grows until there is room
        const u64 left = x.bytes[stream] - x.gap_from[stream];
        const auto part = static_cast<std::uint32_t>(left < kHoleStep << 10 ? left : kHoleStep << 10);
        if (!append(x, Kind::Gap, x.gap_from[stream], part, static_cast<int>(kind_of(x, stream))))
            return false;
        x.gap_from[stream] += part;
        if (part == left) x.gap_open[stream] = false;
    }
    return true;
}

bool publish_gap(const Exec& x, int stream, u64 end)
{
    const auto field = static_cast<long>(offsetof(IndexHead, gap_end)) + 8 * stream;
    return call(SYS_pwrite64, x.index, &end, sizeof end, field) == sizeof end;
}

/// Keeps head and tail of a stream: tells the new end of the gap, then makes the hole, so that a
/// reader who looks at the head after reading never takes zeros for bytes.
void bound(Exec& x, int stream)
{
    const u64 head = head_size(x.limit);
    const u64 quarter = x.limit / 4 / kPage * kPage;
    const u64 step = quarter < kHoleStep ? quarter : kHoleStep;
    if (x.bytes[stream] <= x.limit + step) return;
    const u64 end = (x.bytes[stream] - (x.limit - head)) / kPage * kPage;
    const u64 from = x.punched[stream] != 0 ? x.punched[stream] : head;
    if (end < from + step) return;
    if (!publish_gap(x, stream, end)) return;
    if (call(SYS_fallocate, x.log[stream], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, end - from) <
        0) {
        // No holes here: what is stored stays, and from now on nothing is added.
        x.drop_tail = true;
        publish_gap(x, stream, x.punched[stream]);
        return;
    }
    x.punched[stream] = end;
}

bool store(Exec& x, int stream, std::size_t n)
{
    if (x.drop_tail && x.bytes[stream] >= x.limit) {
        lose(x, stream, n);
        // One record for many reads: the gap is told when it is large, or at the end.
        if (x.bytes[stream] - x.gap_from[stream] >= kHoleStep) return tell_gap(x, stream);
        return true;
    }
    std::size_t written = 0;
    const bool room = reserve(x);
    while (room && written < n) {
        const long w =
            call(SYS_pwrite64, x.log[stream], buffer + written, n - written, x.bytes[stream] + written);
        if (w == -EINTR) continue;
        if (w <= 0) break;
        written += static_cast<std::size_t>(w);
    }
    const u64 told = room && tell_gap(x, stream) ? tell_bytes(x, stream, written) : 0;
    if (told < n) lose(x, stream, n - told); // what no record tells of is a gap, once the index grows again
    return told == n;
}

/// What a busy command prints goes from its pipe into the file without a stop in our memory, and in larger
/// pieces: a third of the time that it takes (measured). 0: take() looks what there is, which is right in
/// every case.
long move(Exec& x, int stream)
{
    if (!x.wide[stream] || x.drop_tail || x.gap_open[stream] || !tell_start(x) || !reserve(x)) return 0;
    u64 at = x.bytes[stream];
    const std::size_t most = x.limit < 8 * kMove ? kBuffer : kMove; // a small log is not to grow by leaps
    const long n = call(SYS_splice, x.source[stream], nullptr, x.log[stream], &at, most, SPLICE_F_NONBLOCK);
    if (n <= 0) return 0;
    const auto size = static_cast<u64>(n);
    if (const u64 told = tell_bytes(x, stream, size); told < size) {
        lose(x, stream, size - told); // as in store()
        retry_at = steady_ns() + kRetry;
    }
    bound(x, stream);
    return n;
}

void end_of_stream(Exec& x, int stream)
{
    // A pty has one descriptor for both ways; its input ends with it.
    if (x.input == x.source[stream]) x.input = -1;
    close_fd(x.source[stream]);
}

bool attended(const Exec& x)
{
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_start = offsetof(IndexHead, taken);
    range.l_len = sizeof(u64);
    return call(SYS_fcntl, x.index, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

/// One who attends and is so far behind that what he has not read would be lost. A part of the tail is left
/// for what is still in the pipes when the command ends.
bool awaits_reader(Exec& x)
{
    const u64 head = head_size(x.limit);
    const u64 tail = x.limit - head;
    const u64 most = tail - (tail / 2 < kPipesLeft ? tail / 2 : kPipesLeft);
    const u64 all = x.bytes[0] + x.bytes[1];
    const auto far = [&] { return all >= (x.taken > head ? x.taken : head) + most; };
    if (!far()) return false;
    u64 taken = 0;
    if (call(SYS_pread64, x.index, &taken, sizeof taken, offsetof(IndexHead, taken)) != sizeof taken)
        return false;
    if (taken > x.taken && taken <= all) x.taken = taken;
    return far() && attended(x);
}

/// Bytes read, 0 at the end, negative errno when nothing is there.
long take(Exec& x, int stream)
{
    long n = move(x, stream);
    if (n == 0) {
        n = call(SYS_read, x.source[stream], buffer, kBuffer);
        if (n == -EAGAIN || n == -EINTR) return n;
        if (n <= 0) { // 0, or EIO: nobody has the other side of the terminal open
            end_of_stream(x, stream);
            return 0;
        }
        if (!store(x, stream, static_cast<std::size_t>(n))) retry_at = steady_ns() + kRetry;
        if (!x.drop_tail) bound(x, stream);
    }
    // However it came: the pace is what bounds the index.
    if (n < kSmallRead) {
        if (x.records > kLongIndex)
            x.rest_until[stream] = steady_ns() + kLongRest;
        else if (x.flags & kPace)
            x.rest_until[stream] = steady_ns() + kRest;
    } else if (n == kBuffer && !x.wide[stream] && !(x.flags & kTerminal)) {
        // A writer that fills its pipe gets a longer one; a user's share of those may be used up.
        call(SYS_fcntl, x.source[stream], F_SETPIPE_SZ, kWidePipe);
        x.wide[stream] = true;
    }
    return n;
}

} // namespace

u64 retry_at = 0;

long begin_log(Exec& x)
{
    IndexHead head{};
    head.magic = kIndexMagic;
    head.limit = x.limit;
    head.gap_start[0] = head.gap_start[1] = head_size(x.limit);
    if (!reserve(x)) return -ENOSPC;
    const long n = call(SYS_pwrite64, x.index, &head, sizeof head, 0);
    if (n < 0) return n;
    return n == sizeof head ? 0 : -ENOSPC;
}

bool drain(Exec& x, int stream)
{
    if (!awaits_reader(x)) return take(x, stream) > 0;
    x.rest_until[stream] = steady_ns() + kAwait;
    return false;
}

void drain_at_exit(Exec& x)
{
    for (int s = 0; s < 2; ++s) {
        if (x.source[s] < 0) continue;
        u64 left = kPtyBacklog; // FIONREAD does not see what a terminal has not yet processed
        if (!(x.flags & kTerminal)) {
            int waiting = 0;
            call(SYS_ioctl, x.source[s], FIONREAD, &waiting);
            left = static_cast<u64>(waiting);
        }
        long n = 1;
        for (u64 taken = 0; taken < left && n > 0; taken += static_cast<u64>(n > 0 ? n : 0)) n = take(x, s);
        // Usually this finds the end of file, and `closed` need not wait for another round.
        if (n > 0 && x.source[s] >= 0) take(x, s);
    }
}

namespace {

bool tell_all(Exec& x)
{
    if (x.index < 0 || x.state == State::Starting) return true;
    if (!tell_start(x)) return false;
    // Without holes a gap grows with every read; it is told in large pieces (store) and here at the end.
    if (x.state == State::Running && x.drop_tail) return true;
    if (!tell_gap(x, 0) || !tell_gap(x, 1)) return false;
    if (x.state == State::Running) return true;
    if (!x.exit_told) x.exit_told = append(x, Kind::Exit, 0, 0, x.status);
    if (!x.exit_told) return false;
    if (x.source[0] >= 0 || x.source[1] >= 0) return true;
    drop_held(x); // whoever reads that it is closed finds them free
    if (!append(x, Kind::Closed, 0, 0, 0)) return false;
    give_back(x);
    release(x); // closes the files; what LIST shows stays
    x.state = State::Closed;
    return true;
}

} // namespace

void settle(Exec& x)
{
    if (!tell_all(x)) retry_at = steady_ns() + kRetry;
}

} // namespace berth::keeper
