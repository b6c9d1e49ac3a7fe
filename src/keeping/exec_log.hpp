#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeper/wire.hpp"

namespace berth::keeping {

/// The files of one exec in a directory of its own: `index`, `out` and, without a terminal, `err`.
/// Whoever asks for the exec makes them; only the keeper writes while it lives (wire_log.hpp tells
/// the layout). They are on disk, not tmpfs: pages of a tmpfs cannot be reclaimed.
class ExecLog {
public:
    enum class Streams { Separate, Terminal };
    enum class Access { Read, Repair };

    /// Conflict when the directory already has a log.
    [[nodiscard]] static Result<ExecLog> create(int directory, Streams streams);
    [[nodiscard]] static Result<ExecLog> open(int directory, Access access = Access::Read);

    /// Borrowed; what a request passes on.
    [[nodiscard]] int index() const noexcept { return index_.get(); }
    [[nodiscard]] int out() const noexcept { return streams_[0].get(); }
    [[nodiscard]] int err() const noexcept { return streams_[1].get(); } ///< -1 with a terminal
    [[nodiscard]] bool terminal() const noexcept { return !streams_[1]; }
    [[nodiscard]] int stream(int number) const noexcept { return streams_[number].get(); }

    /// From now on reads do not wait for the disk: EAGAIN where they would have to, EOPNOTSUPP on a file
    /// system that cannot tell.
    void read_at_once(bool wanted) noexcept { at_once_ = wanted; }
    /// As pread(2).
    [[nodiscard]] ssize_t read_at(int fd, void* into, std::size_t size, std::uint64_t at) const noexcept;

    /// The head of the index; nothing was ever started into an empty one: NotFound.
    [[nodiscard]] Result<keeper::IndexHead> head() const;

    /// Up to `count` records from `from` on; fewer, or none, when they are not there yet. A record
    /// that no keeper would have written is an error that names it.
    [[nodiscard]] Result<std::vector<keeper::Record>> records(std::uint64_t from, std::size_t count) const;

    /// Its last record says that nothing follows; looks at no other.
    [[nodiscard]] Result<bool> closed() const;

    /// After the keeper's death, and only then: a record for the bytes beyond the last one (they
    /// are real), `exit` with status unknown, `closed`. Idempotent; a killed repair is continued. What a
    /// machine that went down tore is cut off; with a torn head all of it is a gap.
    [[nodiscard]] Status repair(WallTime now);

    /// Bytes and records to the disk. Before the exit is committed to a store; the keeper never does.
    [[nodiscard]] Status sync() const;

private:
    ExecLog() = default;
    UniqueFd index_;
    UniqueFd streams_[2];
    bool at_once_ = false;
};

/// The records in `bytes`, which begin with number `from`: whole and well formed ones up to the first
/// that is not written yet. Pure.
[[nodiscard]] Result<std::vector<keeper::Record>> parse_records(std::string_view bytes, std::uint64_t from);

} // namespace berth::keeping
