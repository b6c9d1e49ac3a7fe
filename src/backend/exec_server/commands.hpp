#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.hpp"
#include "protocol/codex/process_client.hpp"

namespace berth::exec_server {

/// The events of the processes of one connection, sorted by process and in their order. Whoever starts one
/// makes an inbox first.
class Commands {
public:
    class Inbox {
    public:
        /// The next event; nothing when the time is over. An error: the connection broke, or the server told
        /// events out of order or faster than they are taken.
        [[nodiscard]] Result<std::optional<codex::ProcessEvent>> next(SteadyTime until);

    private:
        friend class Commands;
        std::mutex mutex_;
        std::condition_variable changed_;
        std::deque<codex::ProcessEvent> queue_;
        std::size_t bytes_ = 0;
        std::uint64_t last_ = 0;
        std::optional<Error> failed_;
    };

    [[nodiscard]] std::shared_ptr<Inbox> open(const std::string& process);
    void close(const std::string& process);
    /// A notification of the server. Waits while an inbox is full: the server then waits too.
    void take(const std::string& method, const json::Value& params);
    void fail_all(const Error& why);

private:
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Inbox>> all_;
};

} // namespace berth::exec_server
