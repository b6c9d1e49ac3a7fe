#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/e2b/config.hpp"
#include "base/result.hpp"

namespace berth::bench {

/// `berth serve` as a process of its own, gone with this.
class Served {
public:
    [[nodiscard]] static Result<std::unique_ptr<Served>> start(const std::string& data,
                                                               const std::vector<std::string>& options = {});
    Served(const Served&) = delete;
    Served& operator=(const Served&) = delete;
    ~Served();

    [[nodiscard]] Result<e2b_client::Config> config() const;
    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    [[nodiscard]] const std::string& url() const noexcept { return url_; }
    [[nodiscard]] const std::string& key() const noexcept { return key_; }
    [[nodiscard]] std::uint16_t port() const;
    /// One of its metrics; zero when it has none of that name.
    [[nodiscard]] Result<double> metric(const std::string& name) const;

private:
    Served() = default;
    pid_t pid_ = -1;
    std::string url_;
    std::string key_;
};

/// Nanoseconds of processor time that a process has used, all of its threads.
[[nodiscard]] Result<double> processor_time(pid_t pid);
/// "VmRSS:" or "VmHWM:" of a process, in bytes.
[[nodiscard]] Result<double> memory_of(pid_t pid, const std::string& name);
/// From now on the most is what it has now.
[[nodiscard]] Status forget_peak(pid_t pid);

} // namespace berth::bench
