#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "base/task.hpp"

namespace berth::codex {

/// What carries messages: a WebSocket, or lines on standard streams. One reader and one writer at a time.
class Wire {
public:
    virtual ~Wire() = default;

    /// Nothing when the client has left.
    virtual Task<std::optional<std::string>> read() = 0;
    virtual Task<Status> write(std::string message) = 0;
    /// Cuts the connection if nobody answers in `patience`.
    virtual void probe(std::chrono::milliseconds patience) = 0;
    virtual void close() noexcept = 0;
    /// A session may outlive it and be taken up again.
    [[nodiscard]] virtual bool resumable() const noexcept = 0;
};

/// JSON lines on descriptors, which are borrowed.
[[nodiscard]] Result<std::unique_ptr<Wire>> make_line_wire(Task<void>::executor_type loop, int in, int out);

} // namespace berth::codex
