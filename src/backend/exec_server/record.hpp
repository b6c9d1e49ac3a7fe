#pragma once

#include <string>

#include "core/backend.hpp"

namespace berth::exec_server {

/// What lies beside a sandbox's directories on the server's machine: how anybody finds it again.
struct Record {
    SandboxSpec spec;
    InstanceLabels labels;
    bool made = false; ///< false: somebody is making it, or was killed while he did
};

inline constexpr const char* kRecordFile = "berth.json";
inline constexpr std::size_t kMostRecord = std::size_t{4} << 20;

[[nodiscard]] std::string write_record(const Record& record);
/// Strict: it comes from another machine.
[[nodiscard]] Result<Record> read_record(std::string_view text);

} // namespace berth::exec_server
