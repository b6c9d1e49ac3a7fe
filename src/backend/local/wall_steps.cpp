// The walls put up after the last mount: limits, identity, capabilities, landlock, filter. The
// order matters and is the specification's: the user namespace is entered late so that it owns
// none of the others; landlock and the filter come last because they forbid what came before.

#include <sched.h>

#include <csignal>

#include "backend/local/plan.hpp"
#include "backend/local/prepare.hpp"
#include "base/hooks.hpp"
#include "keeping/walls.hpp"
#include "sys/caps.hpp"

namespace berth::local {

namespace {

bool shares_writable(const Plan& plan)
{
    for (const Bind& bind : plan.binds)
        if (bind.mode == Mount::Mode::ReadWrite) return true;
    return false;
}

} // namespace

sys::FilterOptions filter_of(const Plan& plan)
{
    sys::FilterOptions options;
    options.refuse_set_id = shares_writable(plan);
    // A socket answers through a read-only mount, and a live view shows those of the host.
    // To what a deny pattern names it would lead past the supervisor.
    options.refuse_unix = plan.layers.kind == Template::Kind::Live || plan.supervision != nullptr;
    options.supervise_paths = plan.supervision != nullptr;
    options.allow_clone3 = plan.keeper_clones;
    options.allow_namespaces = plan.spec->policy.nested_namespaces;
    return options;
}

void add_walls(sys::StepList& list, const Plan& plan, sys::Slot parent, sys::Slot user_namespace)
{
    const Identity& identity = *plan.identity;
    const Domain domain = plan.net == NetMode::Host ? Domain::Scoped : Domain::ForFiles;
    stage(list, parent, "setting the host name");
    list.hostname(host_name(*plan.spec));
    if (plan.beside) {
        stage(list, parent, "entering the network namespace");
        list.enter_beside(list.borrow(plan.beside.maker()), list.borrow(plan.beside.ready()));
    } else if (plan.net == NetMode::New && !hooks::wall_off("net-namespace")) {
        stage(list, parent, "bringing loopback up");
        list.loopback_up();
    }
    stage(list, parent, "setting limits");
    add_limits(list, plan.spec->policy.limits);
    add_open_files(list, plan.spec->policy.limits);
    list.new_session();

    stage(list, parent, "entering the user namespace");
    if (identity.mode == IdMode::Mapped) {
        list.set_namespace(user_namespace, CLONE_NEWUSER);
        list.ids(0, 0, true);
    } else if (identity.mode == IdMode::Plain) {
        list.ids(0, 0, true);
    }
    const bool filter_first = may_gain(*plan.spec, identity) || hooks::wall_off("no-new-privs");
    const auto forbid = [&] {
        stage(list, parent, "forbidding new privileges");
        list.no_new_privs();
        stage(list, parent, "installing landlock and the filter");
        add_landlock(list, plan.files, plan.landlock_abi, domain);
    };
    if (plan.supervision != nullptr) {
        forbid();
        stage(list, parent, "starting the supervisor of deny patterns");
        plan.supervision->add_process(list, 1);
    }
    if (filter_first && plan.supervision == nullptr) {
        // Without no_new_privs a filter needs CAP_SYS_ADMIN over the own namespace: still held here.
        stage(list, parent, "installing the filter");
        add_landlock(list, plan.files, plan.landlock_abi, domain);
        add_filter(list, filter_of(plan));
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
    if (plan.supervision != nullptr) {
        stage(list, parent, "installing the supervised filter");
        plan.supervision->add_filter(list, filter_of(plan));
    } else if (!filter_first) {
        forbid();
        add_filter(list, filter_of(plan));
    }
}

} // namespace berth::local
