#pragma once

#include <map>
#include <string>

#include "core/backend.hpp"
#include "protocol/e2b/sandbox.hpp"

namespace berth::e2b_client {

/// What a sandbox of ours carries in its metadata, by which any process finds it again, on any machine.
struct Identity {
    std::string sandbox; ///< "sbx_…"
    InstanceLabels labels;
    std::string fingerprint; ///< of the specification: the same id with another one is a conflict
    std::string user;
    std::string workdir;
};

[[nodiscard]] std::map<std::string, std::string> metadata_of(const Identity& identity);
/// Nothing when it is none of ours.
[[nodiscard]] std::optional<Identity> identity_of(const std::map<std::string, std::string>& metadata);

/// The filter for every sandbox of ours, for all instances of one, and for one instance. Their characters
/// need no encoding: however often a server decodes them, they stay what they are.
[[nodiscard]] std::map<std::string, std::string> filter_all();
[[nodiscard]] std::map<std::string, std::string> filter_sandbox(std::string_view sandbox);
[[nodiscard]] std::map<std::string, std::string> filter_instance(std::string_view sandbox,
                                                                 std::uint64_t generation);

[[nodiscard]] Found found_of(const e2b::SandboxView& view);

} // namespace berth::e2b_client
