#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::distribution {

/// How a registry wants to be asked: the header WWW-Authenticate of its refusal.
struct Challenge {
    enum class Scheme { Basic, Bearer };
    Scheme scheme = Scheme::Basic;
    std::string realm; ///< of Bearer: where a token is to be had
    std::string service;
    std::string scope;
};

[[nodiscard]] Result<Challenge> parse_challenge(std::string_view header);

/// The token in the answer of a realm.
[[nodiscard]] Result<std::string> read_token(std::string_view body);

} // namespace berth::distribution
