#pragma once

#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "base/clock.hpp"
#include "distribution/reference.hpp"
#include "http_client/client.hpp"
#include "image/oci_document.hpp"

namespace berth::distribution {

/// Who asks; both empty: anybody. Sent to the registry and to its token server, and to nobody else.
struct Login {
    std::string username;
    std::string password;
};

/// One registry, asked for one repository. Blocks; every wait has a deadline.
class Registry {
public:
    struct End {
        SteadyTime until{};
        std::stop_token stop{};
    };
    Registry(Reference reference, Login login, End end);

    struct Document {
        std::string media_type;
        std::string text;
    };
    /// A manifest or an index, at most image::oci::kLargestDocument. `wanted` is a tag or "sha256:…", which
    /// the answer must then have.
    [[nodiscard]] Result<Document> manifest(const std::string& wanted);

    /// The bytes of a blob to `sink`, again from the beginning where a try broke off: `restart` is called
    /// before each. Size and digest are checked.
    [[nodiscard]] Status blob(const image::oci::Descriptor& what, const std::function<Status()>& restart,
                              const ByteSink& sink);

private:
    struct Target {
        std::string origin; ///< "https://host:port"
        std::string path;
    };
    [[nodiscard]] Result<http_client::HttpAnswer>
    get(Target target, std::map<std::string, std::string> headers, const ByteSink& sink);
    [[nodiscard]] Result<http_client::HttpAnswer>
    once(const Target& target, std::map<std::string, std::string> headers, const ByteSink& sink);
    [[nodiscard]] Status in_time() const;
    [[nodiscard]] Status authorize(const std::string& challenge);
    [[nodiscard]] Result<Target> allowed(const std::string& url) const;
    [[nodiscard]] Error refusal(const http_client::HttpAnswer& answer, std::string_view what) const;

    Reference reference_;
    Login login_;
    End end_;
    std::string origin_;
    std::string authorization_; ///< for `origin_` alone
    std::map<std::string, std::unique_ptr<http_client::Client>> clients_;
};

} // namespace berth::distribution
