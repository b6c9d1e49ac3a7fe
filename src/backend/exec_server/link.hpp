#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "backend/exec_server/socket.hpp"
#include "base/json.hpp"

namespace berth::exec_server {

/// A session with a server on one connection: requests and their answers, and what the server tells by
/// itself. For any thread. It does not connect again; whoever needs that opens another one for the same
/// session.
class Link {
public:
    /// On the link's thread: must not call the link.
    using Notify = std::function<void(const std::string& method, const json::Value& params)>;

    /// `resume` is the session to go on with; empty for a new one. NotFound: the server does not know it any
    /// more; Unavailable: another connection still has it.
    [[nodiscard]] static Result<std::unique_ptr<Link>> open(const Config& config, const std::string& resume,
                                                            Notify notify, SteadyTime until);
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link();

    [[nodiscard]] const std::string& session() const noexcept { return session_; }
    /// As the server told it with the session; null where it did not.
    [[nodiscard]] const json::Value& info() const noexcept { return info_; }

    /// Unavailable: the connection broke, and nobody knows whether it was carried out.
    [[nodiscard]] Result<json::Value> call(std::string_view method, json::Object params, SteadyTime until);

    /// Why nothing comes any more; nothing while something may.
    [[nodiscard]] std::optional<Error> broken() const;
    /// Waits for that, or until the time is over.
    [[nodiscard]] bool wait_broken(SteadyTime until) const;
    /// Everybody who waits is told that it is over.
    void hang_up(Error why);

private:
    struct Waiting {
        bool done = false;
        Result<json::Value> answer{json::Value{}};
    };

    explicit Link(Notify notify) : notify_(std::move(notify)) {}
    void take(const std::string& message);
    void fail_all(Error why);
    [[nodiscard]] Status greet(const std::string& resume, SteadyTime until);

    const Notify notify_;
    std::string session_;
    json::Value info_;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    std::int64_t last_id_ = 0;
    std::map<std::int64_t, std::shared_ptr<Waiting>> waiting_;
    std::optional<Error> broken_;
    std::unique_ptr<Socket> socket_; ///< goes first: its thread uses the rest
};

/// An error of the server as one of ours. Its words are the operating system's where a file is concerned.
[[nodiscard]] Error error_of_answer(std::int64_t code, std::string_view message, std::string_view method);

} // namespace berth::exec_server
