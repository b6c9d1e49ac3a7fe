#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/e2b/config.hpp"
#include "http_client/client.hpp"
#include "protocol/connect/failure.hpp"

namespace berth::e2b_client {

/// A running sandbox that may be talked to: what a connect gave.
struct Session {
    std::string id;
    std::string token;
    std::string user;    ///< of its commands, when they name none
    std::string workdir; ///< the same; empty: the user's home
    std::shared_ptr<http_client::Client> client;
    std::string path; ///< before every target
};

/// Hangs up on a stream from another thread.
class Cord {
public:
    void pull();
    [[nodiscard]] bool pulled() const;
    /// False when it was pulled already.
    [[nodiscard]] bool hold(const http_client::Wire* wire);

private:
    mutable std::mutex mutex_;
    const http_client::Wire* wire_ = nullptr;
    bool pulled_ = false;
};

/// How a stream ended.
struct StreamEnd {
    bool told = false;                       ///< by its last envelope, not by the connection
    std::optional<connect::Failure> failure; ///< that it told
    Error cut;                               ///< why there is no last envelope
};

/// The daemon in a sandbox. Calls block. For any thread.
class Envd {
public:
    explicit Envd(const Config& config) : config_(config) {}

    /// The session of what the control plane has told.
    [[nodiscard]] Result<Session> session(const std::string& id, const std::string& token,
                                          const std::string& domain);

    /// One message there and one back.
    [[nodiscard]] Result<std::string> unary(const Session& session, std::string_view method,
                                            const std::string& message, const std::string& user = {});
    /// The same on a connection of its own, that takes as long as the other side takes.
    [[nodiscard]] Result<std::string> patient(const Session& session, std::string_view method,
                                              const std::string& message, Cord& cord);

    using OnMessage = std::function<Status(std::string_view message)>;
    /// One message there and many back. A failure of `on_message` ends it as a cut. `time`: the command is
    /// killed then.
    [[nodiscard]] StreamEnd stream(const Session& session, std::string_view method,
                                   const std::string& message, const std::string& user,
                                   const OnMessage& on_message, Cord& cord,
                                   std::optional<std::chrono::milliseconds> time = std::nullopt);

    /// All of `source` becomes a file that belongs to `user`.
    [[nodiscard]] Status upload(const Session& session, const std::string& path, const std::string& user,
                                const ByteSource& source);

private:
    [[nodiscard]] std::map<std::string, std::string> headers(const Session& session,
                                                             const std::string& user) const;

    const Config& config_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<http_client::Client>> clients_; ///< by place
};

/// The proxy before a sandbox says with this status that it does not run, or is not there.
inline constexpr unsigned kNotRunning = 502;
/// The same as an error of a call.
[[nodiscard]] bool not_running(const Error& error);

} // namespace berth::e2b_client
