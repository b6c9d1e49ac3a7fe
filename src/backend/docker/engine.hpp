#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/docker/engine_place.hpp"
#include "base/json.hpp"
#include "http_client/http.hpp"

namespace berth::docker {

using http_client::HttpAnswer;
using http_client::HttpLimits;
using http_client::HttpRequest;
using http_client::url_encode;

/// The Engine API of Docker, and of Podman's service, in a version both sides know. Calls block. For any
/// thread.
class Engine {
public:
    /// One whose place could not be found out answers every call with the reason.
    explicit Engine(Result<EnginePlace> place)
        : place_(place.value_or(EnginePlace{})),
          unusable_(place ? Status{} : Status(std::unexpected(place.error())))
    {
    }

    [[nodiscard]] const EnginePlace& place() const noexcept { return place_; }

    /// `target` without the version: "/containers/json?all=1". What the engine refuses comes back as an error
    /// with its words: NotFound, Conflict, Invalid and so on by the status. 304 is an answer.
    [[nodiscard]] Result<HttpAnswer> call(HttpRequest request, const HttpLimits& limits = {},
                                          const ByteSink& sink = {}) const;

    [[nodiscard]] Result<json::Value> get(const std::string& target) const;
    /// With a document, or without.
    [[nodiscard]] Result<json::Value> post(const std::string& target, const json::Object& body) const;
    [[nodiscard]] Status post(const std::string& target) const;
    [[nodiscard]] Status remove(const std::string& target) const;

    /// A connection that the engine hands over to what it starts: its bytes as a socket. `early` came
    /// already.
    [[nodiscard]] Result<UniqueFd> hijack(const std::string& target, const json::Object& body,
                                          std::string& early) const;

    /// Which engine this is, by its own word; asked once.
    [[nodiscard]] Result<std::string> identity() const;
    /// It runs on this machine: what we name it can mount, and its containers' processes are the kernel's
    /// here.
    [[nodiscard]] Result<bool> here() const;

private:
    /// "/v1.41", agreed upon with the first call, and again once it is refused.
    [[nodiscard]] Result<std::string> prefix() const;
    [[nodiscard]] Result<HttpAnswer> ask(const HttpRequest& request, const HttpLimits& limits,
                                         const ByteSink& sink) const;
    [[nodiscard]] Result<http_client::Wire> connect() const;

    EnginePlace place_;
    Status unusable_;
    mutable std::mutex mutex_;
    mutable std::string prefix_;
    mutable std::string identity_;
    mutable bool podman_ = false; ///< known with the prefix
    mutable std::optional<bool> here_;
};

/// The name and kernel of the machine that an engine's `/info` tells; empty: they are this one's.
[[nodiscard]] std::string elsewhere(const json::Value& info);

/// What an engine's refusal means, and its words, bounded.
[[nodiscard]] Error refusal(unsigned status, std::string_view body);

/// The same with what a person can do about a TLS connection that does not come about.
[[nodiscard]] Error explain_tls(Error error, const EnginePlace& place);

/// The version to speak with an engine that speaks from `least` to `most`; Unsupported when we have none.
[[nodiscard]] Result<std::string> agree_on_version(std::string_view least, std::string_view most);

} // namespace berth::docker
