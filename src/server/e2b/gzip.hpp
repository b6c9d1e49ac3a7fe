#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace berth::e2b {

/// A body as gzip, piece by piece.
class Gzip {
public:
    Gzip();
    ~Gzip();
    Gzip(const Gzip&) = delete;
    Gzip& operator=(const Gzip&) = delete;

    enum class Last { No, Yes };
    /// What there is to send of it so far; perhaps nothing.
    [[nodiscard]] std::string add(std::string_view bytes, Last last);

private:
    struct Stream;
    std::unique_ptr<Stream> stream_;
};

} // namespace berth::e2b
