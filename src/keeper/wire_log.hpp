#pragma once

#include <cstddef>
#include <cstdint>

/// The index of an exec's log: a head of 64 bytes, then records of 32; the number of a record is
/// its sequence number. Bytes are in `out` and `err` at their logical offset. The order of writes
/// is bytes, record, eventfd: a record that is there has its bytes there.
namespace berth::keeper {

enum class Kind : std::uint16_t { None, Start, Out, Err, Pty, Exit, Closed, Gap };

inline constexpr std::uint64_t kIndexMagic = 0x31307864'69687462; // "bthidx01"
inline constexpr std::uint32_t kMaxRecordBytes = 1 << 20;         // of a stream; a gap may be longer
inline constexpr std::int32_t kStatusUnknown = -1;                // no wait status looks like this
inline constexpr std::uint32_t kLengthUnknown = 0xffffffff;       // of a gap: nobody knows how much was lost

struct IndexHead {
    std::uint64_t magic;
    std::uint64_t limit;
    std::uint64_t gap_start[2]; ///< end of the kept beginning; the same for ever
    std::uint64_t gap_end[2];   ///< grows; bytes from gap_start to here are gone. 0: no gap
    /// Wall clock, ns: when the keeper ended it because its time was over. Written before it is killed; it
    /// may have ended by itself in that moment, which its status tells. 0: the keeper did not.
    std::uint64_t overdue;
    /// Bytes of both streams together, gaps included, that a reader who attends the exec has got. He writes
    /// it, and holds a lock of his open file description on it (fcntl(2), F_OFD_SETLK): while he does, the
    /// command waits for him where it would else lose what he has not read.
    std::uint64_t taken;
};

struct Record {
    std::uint64_t offset;
    std::uint64_t time;     ///< wall clock, ns
    std::uint32_t length;   ///< bytes; of a gap: bytes lost
    std::uint32_t sequence; ///< low half, to tell a record from garbage
    Kind kind;
    std::uint16_t reserved;
    std::int32_t status; ///< Exit: raw wait status; Gap: the Kind of its stream; Start: pid inside
};

static_assert(sizeof(IndexHead) == 64 && sizeof(Record) == 32);

constexpr std::uint64_t record_at(std::uint64_t sequence)
{
    return sizeof(IndexHead) + sequence * sizeof(Record);
}

/// The file a kind of record speaks about: 0 `out`, 1 `err`, -1 none.
constexpr int stream_of(Kind kind)
{
    if (kind == Kind::Out || kind == Kind::Pty) return 0;
    return kind == Kind::Err ? 1 : -1;
}

inline constexpr std::uint64_t kLogPage = 4096; // a hole has whole ones

/// How much of the beginning of a stream is kept.
constexpr std::uint64_t head_size(std::uint64_t limit) { return limit / 2 / kLogPage * kLogPage; }

/// How many of `size` bytes at `offset` one record may speak of. It is read as a whole or not at all, since
/// it has one number: so none runs over the end of the head, and the one at the end of the gap is a small
/// part of the tail.
constexpr std::uint64_t record_bytes(std::uint64_t limit, std::uint64_t offset, std::uint64_t size)
{
    const std::uint64_t head = head_size(limit);
    std::uint64_t most = limit / 16;
    if (most < kLogPage) most = kLogPage;
    if (most > kMaxRecordBytes) most = kMaxRecordBytes;
    if (offset < head && most > head - offset) most = head - offset;
    return size < most ? size : most;
}

constexpr bool good_head(const IndexHead& head)
{
    if (head.magic != kIndexMagic) return false;
    for (int s = 0; s < 2; ++s)
        if (head.gap_end[s] != 0 && head.gap_end[s] < head.gap_start[s]) return false;
    return true;
}

/// A record as the keeper would have written it at this place; anything else is a torn file.
constexpr bool good_record(const Record& r, std::uint64_t sequence)
{
    if (r.sequence != static_cast<std::uint32_t>(sequence) || r.reserved != 0) return false;
    if (r.offset > ~std::uint64_t{0} >> 1) return false;
    switch (r.kind) {
    case Kind::Start:
    case Kind::Exit:
    case Kind::Closed: return r.length == 0 && r.offset == 0;
    case Kind::Out:
    case Kind::Err:
    case Kind::Pty: return r.length != 0 && r.length <= kMaxRecordBytes && r.status == 0;
    case Kind::Gap:
        return r.length != 0 && r.status > 0 && r.status < 8 && stream_of(static_cast<Kind>(r.status)) >= 0;
    default: return false;
    }
}

} // namespace berth::keeper
