#include "backend/local/doctor.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "backend/local/group_pool.hpp"
#include "backend/local/holdings.hpp"
#include "backend/local/identity.hpp"
#include "backend/local/one_shot.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "image/cache.hpp"
#include "keeping/protect.hpp"
#include "policy/policy.hpp"
#include "sys/probe.hpp"
#include "sys/remove_tree.hpp"
#include "sys/seccomp.hpp"

namespace berth::local {

namespace {

using Verdict = Finding::Verdict;

std::string trimmed(Result<std::string> text)
{
    if (!text) return {};
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return *std::move(text);
}

/// A switch of the system that forbids user namespaces to ordinary users, if one is thrown.
std::string user_namespace_remedy()
{
    if (trimmed(read_file("/proc/sys/kernel/unprivileged_userns_clone")) == "0")
        return "sysctl -w kernel.unprivileged_userns_clone=1";
    if (trimmed(read_file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) == "1")
        return "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
    if (trimmed(read_file("/proc/sys/user/max_user_namespaces")) == "0")
        return "sysctl -w user.max_user_namespaces=10000";
    return "run berth as root";
}

std::string remedy_for(const sys::Probed& probed)
{
    if (probed.name == "user namespaces") return user_namespace_remedy();
    if (probed.name == "overlay")
        return ::geteuid() == 0 ? "modprobe overlay" : "run berth as root, or use Linux 5.11 or newer";
    if (probed.name == "landlock") return "boot with lsm=landlock,...";
    return "berth needs Linux 5.14 or newer";
}

/// The calls a launch is made of are one line as long as all of them are there.
void kernel(std::vector<Finding>& out)
{
    std::vector<std::string> calls;
    for (const auto& probed : sys::probe()) {
        if (probed.name == "landlock") continue; // has a finding of its own below
        if (probed.available && probed.detail == "there") {
            calls.push_back(probed.name);
            continue;
        }
        out.push_back({.name = probed.name,
                       .verdict = probed.available ? Verdict::Ok : Verdict::Missing,
                       .detail = probed.detail,
                       .remedy = probed.available ? std::string{} : remedy_for(probed)});
    }
    out.push_back({.name = "system calls", .detail = fmt::format("{}", fmt::join(calls, ", "))});
}

Finding identity(const StateDir& state)
{
    Finding finding{.name = "ids"};
    const auto made = make_identity(state, state.path());
    if (!made) {
        finding.verdict = Verdict::Missing;
        finding.detail = made.error().line();
        finding.remedy = "run berth doctor --clean";
        return finding;
    }
    switch (made->mode) {
    case IdMode::Mapped: finding.detail = "each sandbox has 65536 ids of its own (idmapped mounts)"; break;
    case IdMode::Plain:
        finding.verdict = Verdict::Weaker;
        finding.detail = "no idmapped mounts: root inside is the host's root with few capabilities";
        finding.remedy = "put the state directory on ext4, xfs, btrfs or tmpfs, on Linux 5.19 or newer";
        break;
    case IdMode::Own:
        finding.verdict = Verdict::Weaker;
        finding.detail = "one id: the only user inside is 'user', chown and other users are refused";
        finding.remedy = "run berth as root for a full range";
        break;
    }
    return finding;
}

Finding landlock()
{
    const int abi = landlock_abi();
    Finding finding{.name = "landlock", .detail = fmt::format("ABI {}", abi)};
    if (abi >= 6) return finding;
    finding.verdict = Verdict::Weaker;
    if (abi == 0)
        finding.detail = "not there: the second wall around files is missing";
    else
        finding.detail += ": abstract sockets and signals cannot be scoped (ABI 6)";
    finding.remedy = abi == 0 ? "boot with lsm=landlock,..." : "a kernel of 6.12 or newer has it";
    return finding;
}

Finding patterns()
{
    const std::string lack = sys::lacks_notification();
    Finding finding{.name = "deny patterns", .detail = "a supervisor can be notified of system calls"};
    if (lack.empty()) return finding;
    finding.verdict = Verdict::Missing;
    finding.detail = "policies with some are refused: " + lack;
    finding.remedy = lack.starts_with("the kernel") ? "a kernel of 5.19 or newer has it"
                                                    : "sysctl kernel.yama.ptrace_scope=2";
    return finding;
}

void limits(std::vector<Finding>& out)
{
    const auto tree = sys::CgroupTree::open();
    const auto have = availability_of(tree);
    const auto add = [&](const char* name, const policy::Holding& held) {
        const bool ok = held.tier == policy::Tier::Outside && !hooks::lacks("cgroup");
        const auto colon = held.how.find(": ");
        out.push_back(
            {.name = name,
             .verdict = ok ? Verdict::Ok : Verdict::Missing,
             .detail = ok ? held.how : held.how.substr(0, colon),
             .remedy = ok || colon == std::string::npos ? std::string{} : held.how.substr(colon + 2)});
    };
    add("memory limit", have.memory);
    add("cpu limit", have.cpu);
    auto pids = have.pids;
    if (pids.tier == policy::Tier::None && ::geteuid() != 0)
        pids = {.tier = policy::Tier::Outside, .how = "RLIMIT_NPROC of the sandbox's one user"};
    add("process limit", pids);
    const auto& freezer = tree.of(sys::Controller::Freezer);
    const bool can_pause = freezer.available() || tree.leaf().available();
    out.push_back({.name = "pause",
                   .verdict = can_pause ? Verdict::Ok : Verdict::Missing,
                   .detail = can_pause ? "by the freezer" : freezer.lack.reason,
                   .remedy = can_pause ? std::string{} : freezer.lack.remedy});
}

Finding whole_sandbox(const StateDir& state)
{
    SandboxSpec spec;
    spec.id = make_sandbox_id(system_clock());
    spec.policy = *policy::preset("sandbox");
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"/bin/true"};
    RunStreams streams;
    streams.out = streams.err = -1;
    Finding finding{.name = "sandbox", .detail = "/bin/true ran in one"};
    const auto outcome = run_one_shot(state, spec, exec, streams, {});
    if (outcome && outcome->status.shell_code() == 0) return finding;
    finding.verdict = Verdict::Missing;
    finding.detail = outcome ? to_string(outcome->status) : outcome.error().line();
    finding.remedy = "see the lines above";
    return finding;
}

} // namespace

std::string_view to_string(Finding::Verdict verdict) noexcept
{
    switch (verdict) {
    case Verdict::Ok: return "ok";
    case Verdict::Weaker: return "weaker";
    case Verdict::Missing: return "missing";
    }
    return "missing";
}

std::vector<Finding> examine(const std::string& state_path)
{
    std::vector<Finding> out;
    kernel(out);
    const auto state = StateDir::open(state_path);
    if (!state) {
        out.push_back({.name = "state directory",
                       .verdict = Verdict::Missing,
                       .detail = state.error().line(),
                       .remedy = "use --data DIR for a directory of your own"});
        return out;
    }
    out.push_back({.name = "state directory", .detail = state->path()});
    out.push_back(identity(*state));
    out.push_back(landlock());
    out.push_back(patterns());
    limits(out);
    out.push_back(whole_sandbox(*state));
    return out;
}

Result<std::vector<std::string>> clean(const StateDir& state)
{
    std::vector<std::string> removed;
    for (const auto& group : sweep_groups(state)) removed.push_back("control group " + group);
    BERTH_TRY(const auto placeholders, ProtectedNames::sweep(state.fd()));
    if (placeholders > 0) removed.push_back(fmt::format("{} placeholders of protected names", placeholders));
    BERTH_TRY(const auto templates, image::Cache::open(state.templates()));
    for (const char* kind : {"host", "tar", "layer"}) {
        BERTH_TRY(const bool unfinished, templates.remove_unfinished(kind));
        if (unfinished) removed.push_back(fmt::format("an unfinished template ({})", kind));
    }
    const UniqueFd trash(::open(state.trash().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (trash) BERTH_CHECK(sys::empty_trash(trash.get()));
    return removed;
}

} // namespace berth::local
