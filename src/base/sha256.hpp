#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace berth {

/// SHA-256 of bytes that come in parts.
class Sha256 {
public:
    Sha256();
    void update(std::string_view bytes);
    /// 64 hexadecimal digits; nothing can be added afterwards.
    [[nodiscard]] std::string hex();

private:
    alignas(8) std::array<std::byte, 112> context_; ///< OpenSSL's, which stays out of this header
};

[[nodiscard]] std::string sha256_hex(std::string_view bytes);

} // namespace berth
