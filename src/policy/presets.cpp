#include <array>

#include "base/strings.hpp"
#include "policy/policy.hpp"

namespace berth::policy {

namespace {

// What a program on the host runs or obeys without being asked to run the project: git itself
// (hooks, fsmonitor and ssh commands in its config; husky's hooks), a coding agent at its next start
// (hooks, MCP servers, skills), an editor that opens the folder (tasks, run configurations, container
// commands). Build files are not here: running those is the user's own decision, and an agent that
// may not write them cannot work.
constexpr std::array kProtectedNames{
    ".git",          ".husky",                                                         // git
    ".agents",       ".claude", ".codex",  ".cursor", ".opencode", ".pi", ".mcp.json", // agents
    ".devcontainer", ".idea",   ".vscode",                                             // editors
};

/// A fork bomb or a descriptor leak is contained whatever else a policy says.
Policy bounded(std::string_view name)
{
    Policy policy;
    policy.name = name;
    policy.limits.pids = 4096;
    policy.limits.open_files = 20000;
    return policy;
}

Policy read_only()
{
    Policy policy = bounded("read-only");
    policy.files = {{Access::Read, Symbolic{Symbol::Root, {}}}};
    return policy;
}

Policy workspace_write()
{
    Policy policy = bounded("workspace-write");
    policy.files = {{Access::Read, Symbolic{Symbol::Root, {}}},
                    {Access::Write, Symbolic{Symbol::WorkspaceRoots, {}}},
                    {Access::Write, Symbolic{Symbol::Tmpdir, {}}}};
    policy.protected_names.assign(kProtectedNames.begin(), kProtectedNames.end());
    return policy;
}

} // namespace

std::vector<std::string> preset_names() { return {"sandbox", "read-only", "workspace-write", "full-access"}; }

Result<Policy> preset(std::string_view name)
{
    if (name == "sandbox" || name == "full-access") return bounded(name);
    if (name == "read-only") return read_only();
    if (name == "workspace-write") return workspace_write();
    const std::string near = nearest(name, preset_names());
    if (near.empty())
        return fail(Code::NotFound, "no preset '{}': one of {}", printable(name, 60),
                    fmt::join(preset_names(), ", "));
    return fail(Code::NotFound, "no preset '{}', did you mean '{}'?", printable(name, 60), near);
}

} // namespace berth::policy
