#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/e2b/cloud.hpp"

namespace berth::e2b_client {

/// What a command is to read. The daemon takes input only as fast as the command does, and says nothing until
/// then; so a thread gives it, and callers wait only a moment. What is kept for a command that does not read
/// is bounded.
class ExecInput {
public:
    ExecInput(Cloud& cloud, std::string instance, std::string exec, bool terminal);
    ExecInput(const ExecInput&) = delete;
    ExecInput& operator=(const ExecInput&) = delete;
    ~ExecInput();

    /// As Backend::write_input and close_input.
    [[nodiscard]] Result<std::size_t> write(std::uint64_t id, std::string_view bytes);
    [[nodiscard]] Status close(std::uint64_t id);
    [[nodiscard]] const std::string& instance() const noexcept { return instance_; }

private:
    void run();
    [[nodiscard]] Status send(const std::string& bytes);
    [[nodiscard]] Status send_end();
    /// Until everything is given, it fails, or the moment is over.
    void settle(std::unique_lock<std::mutex>& lock);

    Cloud& cloud_;
    const std::string instance_;
    const std::string exec_;
    const bool terminal_;
    Cord cord_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::string waiting_;
    bool sending_ = false;
    bool end_asked_ = false;
    bool end_sent_ = false;
    bool stopping_ = false;
    std::optional<Error> failed_;
    std::uint64_t last_id_ = 0;
    std::size_t last_taken_ = 0;
    std::thread thread_;
};

} // namespace berth::e2b_client
