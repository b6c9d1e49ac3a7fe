#pragma once

#include <string_view>

#include "keeping/exec_log.hpp"

namespace berth::keeping {

/// Writes the log of an exec whose output comes to this process and to nobody else: there is no keeper. The
/// layout and the bounds are the keeper's, so whoever reads a log need not know who wrote it. One writer at a
/// time; who that is, is the caller's to arrange.
class LogWriter {
public:
    /// Of a log that nobody has written to.
    [[nodiscard]] static Result<LogWriter> begin(ExecLog log, Bytes limit);
    /// Goes on where another writer has left off; the log must not be closed.
    [[nodiscard]] static Result<LogWriter> go_on(ExecLog log);

    [[nodiscard]] Status start(int pid);
    [[nodiscard]] Status output(keeper::Kind kind, std::string_view bytes);
    /// Something is missing here, and nobody knows how much.
    [[nodiscard]] Status gap();
    /// `status` as wait(2) gives it, or kStatusUnknown. Once; further ones change nothing.
    [[nodiscard]] Status exit(int status);
    [[nodiscard]] Status close();

    [[nodiscard]] bool exited() const noexcept { return exited_; }
    [[nodiscard]] int pid() const noexcept { return pid_; }
    /// What was printed so far, of `out` (0) or `err` (1).
    [[nodiscard]] std::uint64_t bytes(int stream) const noexcept { return bytes_[stream]; }
    [[nodiscard]] const ExecLog& log() const noexcept { return log_; }

private:
    explicit LogWriter(ExecLog log) : log_(std::move(log)) {}
    [[nodiscard]] Status append(keeper::Kind kind, std::uint64_t offset, std::uint32_t length, int status);
    [[nodiscard]] Status bound(int stream);

    ExecLog log_;
    std::uint64_t limit_ = 0;
    std::uint64_t records_ = 0;
    std::uint64_t bytes_[2] = {};
    std::uint64_t punched_[2] = {};
    int pid_ = 0;
    bool holes_ = true; ///< the file system has them
    bool exited_ = false;
    bool closed_ = false;
};

} // namespace berth::keeping
