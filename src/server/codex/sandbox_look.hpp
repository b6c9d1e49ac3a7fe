#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace berth::codex {

class Traces;

/// The sandbox that an intent is applied on top of. Borrowed.
struct Around {
    Backend& backend;
    const SandboxHandle& handle;
    const SandboxSpec& spec;
    const Traces* traces = nullptr; ///< what of it is ours
};

/// Where a path of the sandbox really leads, as the sandbox's own user sees it.
struct Seen {
    std::string real;
    bool missing = false;
    std::vector<std::string> links; ///< directories that hold a link on the way
};

/// Looks at paths of a sandbox, name by name; at none of them twice.
class Looker {
public:
    explicit Looker(Around around) : around_(around) {}
    Task<Result<Seen>> look(std::string path);
    /// Not followed; nothing where it is not there.
    Task<Result<std::optional<FileEntry>>> entry(std::string path);

private:
    Around around_;
    std::map<std::string, std::optional<FileEntry>> known_;
};

} // namespace berth::codex
