#include "backend/local/doctor.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backend/local/holdings.hpp"
#include "backend/local/identity.hpp"
#include "backend/local/limits.hpp"
#include "backend/local/one_shot.hpp"
#include "backend/local/protect.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "policy/policy.hpp"
#include "sys/landlock.hpp"
#include "sys/remove_tree.hpp"
#include "sys/userns.hpp"

namespace berth::local {

namespace {

using Verdict = Finding::Verdict;

std::string trimmed(Result<std::string> text)
{
    if (!text) return {};
    while (!text->empty() && text->back() == '\n') text->pop_back();
    return *std::move(text);
}

Finding kernel()
{
    utsname name{};
    ::uname(&name);
    int major = 0;
    int minor = 0;
    std::sscanf(&name.release[0], "%d.%d", &major, &minor); // NOLINT(cert-err34-c): zeros say it all
    Finding finding{.name = "kernel", .detail = fmt::format("Linux {}", &name.release[0])};
    if (major < 5 || (major == 5 && minor < 14)) {
        finding.verdict = Verdict::Missing;
        finding.remedy = "berth needs Linux 5.14 or newer";
    }
    return finding;
}

Finding user_namespaces()
{
    const std::uint32_t uid = ::geteuid();
    const std::uint32_t gid = ::getegid();
    Finding finding{.name = "user namespaces", .detail = "can be made"};
    // An ordinary user's maps go through setgroups; making one and mapping nothing is proof enough.
    const auto made =
        uid == 0 ? sys::make_user_namespace({{0, uid, 1}}, {{0, gid, 1}}) : sys::make_user_namespace({}, {});
    if (made && !hooks::lacks("user-namespaces")) return finding;
    finding.verdict = Verdict::Missing;
    finding.detail = made ? "not here" : made.error().line();
    if (trimmed(read_file("/proc/sys/kernel/unprivileged_userns_clone")) == "0")
        finding.remedy = "sysctl -w kernel.unprivileged_userns_clone=1";
    else if (trimmed(read_file("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")) == "1")
        finding.remedy = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
    else if (trimmed(read_file("/proc/sys/user/max_user_namespaces")) == "0")
        finding.remedy = "sysctl -w user.max_user_namespaces=10000";
    else
        finding.remedy = "run berth as root";
    return finding;
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
    std::vector<Finding> out{kernel(), user_namespaces()};
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
    limits(out);
    out.push_back(whole_sandbox(*state));
    return out;
}

Result<std::vector<std::string>> clean(const StateDir& state)
{
    std::vector<std::string> removed;
    for (const auto& group : sweep_groups()) removed.push_back("control group " + group);
    BERTH_TRY(const auto placeholders, ProtectedNames::sweep(state));
    if (placeholders > 0) removed.push_back(fmt::format("{} placeholders of protected names", placeholders));
    const UniqueFd trash(::open(state.trash().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (trash) BERTH_CHECK(sys::empty_trash(trash.get()));
    return removed;
}

} // namespace berth::local
