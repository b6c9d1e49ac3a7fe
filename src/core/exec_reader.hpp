#pragma once

#include <string>
#include <vector>

#include "core/backend.hpp"
#include "core/record.hpp"

namespace berth {

/// What the outcome of an exec begins with that never ran; why follows.
inline constexpr std::string_view kNotStarted = "not started: ";
/// An exec that was not started has no log; the failure says why it was not.
[[nodiscard]] Status has_log(const ExecRecord& exec);

/// Reads the log of an exec on and on, through the death of whoever writes it.
class ExecReader {
public:
    /// Borrows the backend.
    ExecReader(Backend& backend, SandboxHandle sandbox, std::string exec, std::uint64_t from = 0)
        : backend_(backend), sandbox_(std::move(sandbox)), exec_(std::move(exec)), position_(from)
    {
    }

    /// As Backend::read_events, at the place where the last call ended. When the keeper is gone the log is
    /// settled once and read to its end: an exec that was lost ends with an unknown status.
    Task<Result<std::vector<ExecEvent>>> next(SteadyTime until);

    /// The sequence number to go on with.
    [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
    /// `Closed` was read: nothing follows.
    [[nodiscard]] bool closed() const noexcept { return closed_; }

private:
    Backend& backend_;
    SandboxHandle sandbox_;
    std::string exec_;
    std::uint64_t position_;
    bool settled_ = false;
    bool closed_ = false;
};

} // namespace berth
