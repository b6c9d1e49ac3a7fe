#pragma once

#include <string>
#include <string_view>

#include "bench/context.hpp"

namespace berth::bench {

/// A state directory of its own on the same file system, removed however a measurement ends.
class OwnData {
public:
    [[nodiscard]] static Result<OwnData> make(const Context& context, std::string_view name);
    OwnData(OwnData&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    OwnData& operator=(OwnData&&) = delete;
    ~OwnData();

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    explicit OwnData(std::string path) : path_(std::move(path)) {}
    std::string path_;
};

} // namespace berth::bench
