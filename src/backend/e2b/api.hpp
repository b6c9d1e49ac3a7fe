#pragma once

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "backend/e2b/config.hpp"
#include "http_client/client.hpp"
#include "protocol/e2b/sandbox_client.hpp"
#include "protocol/e2b/template_client.hpp"

namespace berth::e2b_client {

/// May a request be sent again when nobody knows whether it arrived?
enum class Again { Never, Harmless };

/// E2B's control plane. Calls block. For any thread. What was certainly not acted upon (nobody listened, 429,
/// 503) is tried again a few times, as the server says when; the rest only where that is harmless.
class Api {
public:
    explicit Api(Config config) : config_(std::move(config)), client_(config_.api.place) {}

    [[nodiscard]] const Config& config() const noexcept { return config_; }

    [[nodiscard]] Result<e2b::SandboxView> create(e2b::NewSandbox wish);
    /// Running and paused ones, all pages, newest first.
    [[nodiscard]] Result<std::vector<e2b::SandboxView>>
    list(const std::map<std::string, std::string>& metadata);
    [[nodiscard]] Result<e2b::SandboxView> get(const std::string& id);
    /// Resumes a paused one; lengthens the time of a running one. A fresh token comes with it.
    [[nodiscard]] Result<e2b::SandboxView> connect(const std::string& id);
    [[nodiscard]] Status pause(const std::string& id, bool keep_memory);
    [[nodiscard]] Status set_timeout(const std::string& id, std::chrono::seconds time);
    [[nodiscard]] Status kill(const std::string& id);
    [[nodiscard]] Result<std::string> snapshot(const std::string& id, const std::string& name);
    [[nodiscard]] Status remove_template(const std::string& id);

    [[nodiscard]] Result<e2b::RegisteredTemplate> new_template(const e2b::NewTemplate& wish);
    [[nodiscard]] Result<e2b::FilesLink> files_link(const std::string& id, const std::string& hash);
    [[nodiscard]] Status start_build(const e2b::RegisteredTemplate& which, const e2b::BuildStart& start,
                                     bool force);
    /// With the lines of its log from the `seen`th on, some at a time.
    [[nodiscard]] Result<e2b::BuildStatus> build_status(const e2b::RegisteredTemplate& which,
                                                        std::size_t seen);

private:
    [[nodiscard]] Result<http_client::HttpAnswer> call(std::string_view method, const std::string& target,
                                                       std::string body, Again again);
    /// Shorter where the server has said that ours is too long.
    [[nodiscard]] std::chrono::seconds timeout() const;

    Config config_;
    http_client::Client client_;
    std::atomic<std::int64_t> longest_{86'400};
};

/// The error that a refusal of a server stands for, with its own words, bounded.
[[nodiscard]] Error refusal(unsigned status, std::string_view body);

} // namespace berth::e2b_client
