#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace berth::cli {

/// How far a long transfer is, on a terminal only. For one thread at a time.
class Progress {
public:
    Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    /// Takes away what it has shown.
    ~Progress();

    void expect(std::uint64_t total) { total_ = total; } ///< bytes in all, where it is known
    void add(std::uint64_t bytes);
    /// Of something that tells how far it is itself.
    void tell(std::string_view what, std::uint64_t have, std::uint64_t of);

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::chrono::nanoseconds elapsed() const;

private:
    void show();

    using Clock = std::chrono::steady_clock;
    Clock::time_point begun_ = Clock::now();
    Clock::time_point next_;
    std::uint64_t bytes_ = 0;
    std::uint64_t total_ = 0;
    bool wanted_;
    bool shown_ = false;
};

} // namespace berth::cli
