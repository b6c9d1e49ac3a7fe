#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "base/json_reader.hpp"

/// The objects of the control plane, as JSON.
namespace berth::e2b {

inline constexpr std::string_view kClientId = "6532622b"; ///< a constant every answer must have
inline constexpr std::string_view kEnvdVersion = "0.6.13";

/// Which form of the API a request came by: defaults differ.
enum class ApiVersion { V1, V2 };

struct VolumeMount {
    std::string name;
    std::string path;
};

/// How traffic comes to the ports of a sandbox.
struct Ingress {
    std::string mask_host;                    ///< of maskRequestHost
    std::vector<std::uint16_t> https_ports{}; ///< whose programs speak TLS
};

struct NewSandbox {
    std::string template_id;
    std::chrono::seconds timeout{300};
    bool auto_pause = false;
    bool auto_pause_memory = true;
    bool auto_resume = false;
    bool secure = true;
    std::optional<bool> allow_internet;
    bool public_traffic = true;
    Ingress ingress;
    std::map<std::string, std::string> metadata;
    std::map<std::string, std::string> env;
    std::vector<VolumeMount> volumes;
};

/// Refuses with Invalid what can never be, and with Unsupported what this server does not have: finer
/// network rules than all or nothing, identities, gateways.
[[nodiscard]] Result<NewSandbox> read_new_sandbox(std::string_view text, ApiVersion version);

/// Egress of PUT network: whether all of it is cut off; finer rules are refused.
[[nodiscard]] Result<bool> read_network_update(std::string_view text);

/// A body of one optional number: {"timeout":n}, {"duration":n}.
struct TimeWish {
    std::optional<std::chrono::seconds> time;
    std::optional<bool> memory; ///< of connect, resume and pause
    std::optional<bool> auto_pause;
};
[[nodiscard]] Result<TimeWish> read_time(std::string_view text, std::string_view field);

struct ForkRequest {
    std::chrono::seconds timeout{15};
    std::size_t count = 1;
};
[[nodiscard]] Result<ForkRequest> read_fork(std::string_view text);

/// What clients are shown of a sandbox.
struct SandboxView {
    std::string id;
    std::string template_id;
    std::string alias;
    std::string token;         ///< empty: not secured
    std::string traffic_token; ///< empty: traffic is public
    std::string domain;
    bool paused = false;
    WallTime started{};
    WallTime end{};
    unsigned cpus = 2;
    unsigned memory_mb = 512;
    unsigned disk_mb = 0;
    std::map<std::string, std::string> metadata;
    bool auto_pause = false;
    bool auto_resume = false;
    Ingress ingress;
    std::vector<VolumeMount> volumes;
};

/// The list at `name`; empty where there is none.
[[nodiscard]] Result<std::vector<std::uint16_t>> read_ports(const json::Reader& from, std::string_view name);
[[nodiscard]] json::Array ports_json(const std::vector<std::uint16_t>& ports);
[[nodiscard]] json::Object sandbox_json(const SandboxView& sandbox);
[[nodiscard]] json::Object listed_json(const SandboxView& sandbox);
[[nodiscard]] json::Object detail_json(const SandboxView& sandbox);

struct Metric {
    WallTime time{};
    unsigned cpus = 0;
    double cpu_percent = 0;
    std::uint64_t memory = 0, memory_total = 0, memory_cache = 0;
    std::uint64_t disk = 0, disk_total = 0;
};
[[nodiscard]] json::Object metric_json(const Metric& metric);

/// {"code":404,"message":"…"}: the number is the HTTP status, which clients look at here.
[[nodiscard]] std::string error_body(int status, std::string_view message);

} // namespace berth::e2b
