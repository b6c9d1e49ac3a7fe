// The walls put up after the last mount: limits, identity, capabilities, landlock, filter. The
// order matters and is the specification's: the user namespace is entered late so that it owns
// none of the others; landlock and the filter come last because they forbid what came before.

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <csignal>

#include "backend/local/plan.hpp"
#include "base/hooks.hpp"
#include "sys/caps.hpp"
#include "sys/landlock.hpp"
#include "sys/seccomp.hpp"

namespace berth::local {

namespace {

constexpr std::uint64_t kDefaultOpenFiles = 20000;

bool shares_writable(const Plan& plan)
{
    for (const Bind& bind : plan.binds)
        if (bind.mode == Mount::Mode::ReadWrite) return true;
    return false;
}

} // namespace

void add_limits(sys::StepList& list, const Plan& plan)
{
    const policy::Limits& limits = plan.spec->policy.limits;
    // Less than a core file can be, and the one value with which the kernel starts no handler of the host
    // either.
    list.rlimit(RLIMIT_CORE, 1);
    // With one id inside, the kernel's count of its processes is the sandbox's.
    if (limits.pids && !hooks::wall_off("rlimits")) list.rlimit(RLIMIT_NPROC, *limits.pids);
    list.umask(022);
}

void add_open_files(sys::StepList& list, const Plan& plan)
{
    list.rlimit(RLIMIT_NOFILE, plan.spec->policy.limits.open_files.value_or(kDefaultOpenFiles));
}

void add_landlock(sys::StepList& list, const Plan& plan, bool always)
{
    namespace ll = sys::landlock;
    if (plan.landlock_abi == 0 || hooks::wall_off("landlock")) return;
    const bool file_rules = !plan.files.empty();
    const std::uint64_t scopes = always || plan.net == NetMode::Host ? ll::scopes(plan.landlock_abi) : 0;
    if (!file_rules && scopes == 0 && !always) return;
    const std::uint64_t writing = file_rules ? ll::writing(plan.landlock_abi) : 0;
    // A ruleset must handle something; what is allowed on / again restricts nothing.
    const std::uint64_t harmless = plan.landlock_abi >= 2 ? ll::kRefer : ll::kMakeBlock;
    const std::uint64_t handled = writing != 0 ? writing : harmless;
    const auto rules = list.landlock_create(handled, 0, scopes);
    if (!file_rules) {
        list.landlock_path(rules, "/", harmless);
    } else {
        for (const auto& rule : plan.files.rules)
            if (rule.access == policy::Access::Write && !rule.path.empty())
                list.landlock_path(rules, rule.path, writing, ENOENT);
        for (const char* own : {"/dev", "/proc"}) list.landlock_path(rules, own, writing);
    }
    list.landlock_apply(rules);
    list.close(rules);
}

void add_filter(sys::StepList& list, const Plan& plan)
{
    if (hooks::wall_off("filter")) return;
    sys::FilterOptions options;
    options.refuse_set_id = shares_writable(plan);
    // A socket answers through a read-only mount, and a live view shows those of the host.
    options.refuse_unix = plan.layers.kind == Template::Kind::Live;
    options.allow_clone3 = plan.keeper_clones;
    options.allow_namespaces = plan.spec->policy.nested_namespaces;
    list.seccomp(sys::seccomp_filter(options));
}

void add_walls(sys::StepList& list, const Plan& plan, sys::Slot parent, sys::Slot user_namespace)
{
    const Identity& identity = *plan.identity;
    const bool sudo =
        plan.spec->policy.privileges == policy::Privileges::Sudo && identity.mode == IdMode::Mapped;

    stage(list, parent, "setting the host name");
    list.hostname(host_name(*plan.spec));
    if (plan.net == NetMode::New && !hooks::wall_off("net-namespace")) {
        stage(list, parent, "bringing loopback up");
        list.loopback_up();
    }
    stage(list, parent, "setting limits");
    add_limits(list, plan);
    add_open_files(list, plan);
    list.new_session();

    stage(list, parent, "entering the user namespace");
    if (identity.mode == IdMode::Mapped) {
        list.set_namespace(user_namespace, CLONE_NEWUSER);
        list.ids(0, 0, true);
    } else if (identity.mode == IdMode::Plain) {
        list.ids(0, 0, true);
    }
    const bool filter_first = sudo || hooks::wall_off("no-new-privs");
    if (filter_first) {
        // Without no_new_privs a filter needs CAP_SYS_ADMIN over the own namespace: still held here.
        stage(list, parent, "installing the filter");
        add_landlock(list, plan, false);
        add_filter(list, plan);
    }
    stage(list, parent, "dropping capabilities");
    if (!hooks::wall_off("capabilities")) {
        const std::uint64_t kept = identity.mode == IdMode::Own ? 0 : sys::kKeptCaps;
        list.drop_caps(kept, kept);
    }
    // The kernel clears the parent-death signal on a change of uid, so it comes after.
    if (!plan.kept) {
        stage(list, parent, "tying the sandbox to its launcher");
        list.death_signal(SIGKILL, parent);
    }
    if (!filter_first) {
        stage(list, parent, "forbidding new privileges");
        list.no_new_privs();
        stage(list, parent, "installing landlock and the filter");
        add_landlock(list, plan, false);
        add_filter(list, plan);
    }
}

} // namespace berth::local
