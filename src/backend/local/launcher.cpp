#include "backend/local/launcher.hpp"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hooks.hpp"
#include "sys/caps.hpp"

namespace berth::local {

namespace {

constexpr const char* kPortStart = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

bool made_by_clone(const Plan& plan)
{
    return plan.net == NetMode::New && !plan.beside && !hooks::wall_off("net-namespace");
}

std::uint64_t namespaces(const Plan& plan)
{
    std::uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    if (made_by_clone(plan)) flags |= CLONE_NEWNET;
    if (plan.identity->mode == IdMode::Own) flags |= CLONE_NEWUSER;
    return flags;
}

/// Adds what a person can do about the usual reasons for a launch to fail.
Error with_remedy(Error error, const Plan& plan)
{
    const int err = error.sys.value();
    const bool own = plan.identity->mode == IdMode::Own;
    if (error.message.starts_with("clone3") || error.message.starts_with("writing the id maps")) {
        if (own && (err == EPERM || err == EACCES || err == ENOSPC || err == EUSERS)) {
            error.code = Code::Unsupported;
            error.message +=
                ": this machine does not let ordinary users make user namespaces; run as root, or "
                "allow them (berth doctor tells how)";
        } else if (err == EAGAIN || err == ENOMEM) {
            error.code = Code::Exhausted;
            error.message += ": too many processes for this user or machine";
        }
    } else if (error.message.starts_with("mounting the root overlay") &&
               (err == ENODEV || err == EPERM || err == EINVAL)) {
        error.code = Code::Unsupported;
        error.message += own ? ": overlayfs in a user namespace needs Linux 5.11 or newer"
                             : ": overlayfs is needed (modprobe overlay)";
    } else if (own && err == EINVAL && error.message.starts_with("attaching the template")) {
        error.code = Code::Unsupported;
        error.message += ": something is mounted in it, which an ordinary user's sandbox cannot have a layer "
                         "over; unmount it, or run berth as root";
    } else if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOSPC) {
        error.code = Code::Exhausted;
    }
    return error;
}

} // namespace

Result<sys::StepList> launch_steps(const Plan& plan, const Entry& entry, int self_pidfd)
{
    sys::StepList list;
    const auto parent = list.borrow(self_pidfd);
    const Identity& identity = *plan.identity;
    const auto user_namespace =
        identity.user_namespace ? list.borrow(identity.user_namespace.get()) : sys::Slot{};

    add_identity_first(list, plan, parent);
    stage(list, parent, "entering the control groups");
    for (const int tasks : plan.v1_tasks) list.write_fd(list.borrow(tasks), "0");
    if (plan.net == NetMode::Pooled) {
        stage(list, parent, "entering the network namespace");
        list.set_namespace(list.borrow(plan.net_namespace.get()), CLONE_NEWNET);
    } else if (made_by_clone(plan)) {
        // Root inside does not own the namespace, so low ports must need no capability.
        stage(list, parent, "opening the low ports");
        list.write_file(kPortStart, "0", EACCES);
    }
    add_root(list, plan, parent, user_namespace);
    add_proc(list, plan, parent);
    add_dev(list, plan, parent);
    add_binds(list, plan, parent);
    stage(list, parent, "switching the root");
    if (!hooks::wall_off("pivot-root")) list.pivot_root();
    BERTH_CHECK(add_file_rules(list, site_of(plan), parent));
    add_walls(list, plan, parent, user_namespace);

    stage(list, parent, "starting the sandbox's first process");
    list.dup(list.borrow(entry.in), 0);
    list.dup(list.borrow(entry.out), 1);
    list.dup(list.borrow(entry.err), 2);
    list.dup(list.borrow(entry.socket), 3);
    int next = 4;
    for (const int fd : entry.more) list.dup(list.borrow(fd), next++);
    for (const int fd : plan.keep_open) list.dup(list.borrow(fd), next++);
    list.close_on_exec_from(hooks::wall_off("close-descriptors") ? 1000 : next);
    list.exec(list.borrow(entry.program), entry.argv, entry.env);
    const bool own = identity.mode == IdMode::Own;
    if (plan.supervision != nullptr) plan.supervision->add_block(list, own ? 0 : sys::kKeptCaps, own);
    return list;
}

Result<sys::Launched> launch(const Plan& plan, const Entry& entry, sys::Spawner* spawner)
{
    const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    if (!self) return fail_errno("opening our own pidfd");
    BERTH_TRY(auto list, launch_steps(plan, entry, self.get()));
    const sys::LaunchOptions options{.namespaces = namespaces(plan),
                                     .cgroup = entry.cgroup,
                                     .low_numbers =
                                         4 + static_cast<int>(entry.more.size() + plan.keep_open.size())};
    auto launched = spawner != nullptr ? spawner->launch(list, options) : sys::launch(list, options);
    if (!launched) return std::unexpected(with_remedy(std::move(launched).error(), plan));
    return launched;
}

} // namespace berth::local
