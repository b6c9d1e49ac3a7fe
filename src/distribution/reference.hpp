#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::distribution {

/// The name of an image in a registry, as people write it: "alpine", "ghcr.io/me/tool:1.2",
/// "localhost:5000/x@sha256:…".
struct Reference {
    std::string registry; ///< "docker.io", "localhost:5000"
    std::string repository;
    std::string tag;    ///< "latest" where nothing is said; empty with a digest alone
    std::string digest; ///< 64 hexadecimal digits, or empty

    /// With everything said: "docker.io/library/alpine:latest".
    [[nodiscard]] std::string text() const;
    /// What is asked for: the digest where there is one.
    [[nodiscard]] std::string wanted() const { return digest.empty() ? tag : "sha256:" + digest; }
    bool operator==(const Reference&) const = default;
};

[[nodiscard]] Result<Reference> parse_reference(std::string_view text);

/// This machine itself: there, plain HTTP is spoken.
[[nodiscard]] bool is_loopback(std::string_view registry) noexcept;

} // namespace berth::distribution
