#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::image {

/// Packs a stream as gzip does; equal streams give equal bytes.
class Gzip {
public:
    [[nodiscard]] static Result<Gzip> open();
    Gzip(Gzip&&) noexcept;
    Gzip& operator=(Gzip&&) noexcept;
    ~Gzip();

    /// What has become of these bytes and those before, as far as it can be told already.
    [[nodiscard]] Result<std::string> add(std::string_view bytes);
    /// The rest.
    [[nodiscard]] Result<std::string> finish();

private:
    struct State;
    explicit Gzip(std::unique_ptr<State> state);
    [[nodiscard]] Result<std::string> pack(std::string_view bytes, int flush);
    std::unique_ptr<State> state_;
};

} // namespace berth::image
