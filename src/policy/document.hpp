#pragma once

#include <string>
#include <string_view>

#include "base/json.hpp"
#include "policy/policy.hpp"

namespace berth::policy {

enum class Syntax { Json, Toml };

/// Reads one policy document. Strict: an unknown field, a wrong type, a duplicate key or rule, a
/// contradiction (two accesses for one target, `allow` rules without network "allow", …) or a bad
/// path is an error that names the place.
///
/// A document extends "sandbox" unless it names another preset: its file rules and protected names
/// are added (a rule on the same target replaces the preset's), every other field replaces.
///
///     { "name": "ci", "extends": "workspace-write",
///       "files": [{"read": ":root"}, {"write": "/data"}, {"deny": "**/.env"}],
///       "protect": [".git"], "network": "off" | {"allow": [{"host": "pypi.org", "ports": [443]}]},
///       "limits": {"memory": "2GiB", "cpus": 1.5, "pids": 512, "disk": "1GiB", "open_files": 1024,
///       "wall_time": "10m"}, "privileges": "none" | "sudo", "nested_namespaces": false, "devices":
///       ["/dev/kvm"] }
[[nodiscard]] Result<Policy> parse(std::string_view text, Syntax syntax);

/// A preset's name, or a path ending in .json or .toml (bounded size), as `--policy` takes it.
[[nodiscard]] Result<Policy> load(const std::string& name_or_path);

/// The document that parses back to an equal policy.
[[nodiscard]] json::Object to_json(const Policy& policy);
[[nodiscard]] std::string to_toml(const Policy& policy);

} // namespace berth::policy
