#include "sys/netns.hpp"

#include <fcntl.h>
#include <sched.h>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "sys/netns_beside.hpp"

namespace berth::sys {

Result<UniqueFd> make_net_namespace()
{
    UniqueFd home(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!home) return fail_errno("opening our network namespace");
    if (::unshare(CLONE_NEWNET) != 0) return fail_errno("making a network namespace");
    ScopeExit back([&] {
        // Staying in a sandbox's namespace would be far worse than ending here.
        if (::setns(home.get(), CLONE_NEWNET) != 0) std::abort();
    });
    if (const long r = raise_loopback(); r < 0) return fail_with(static_cast<int>(r), "bringing loopback up");
    // Mapped root does not own this namespace, so ports below 1024 must need no capability.
    BERTH_CHECK(write_control("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"));
    UniqueFd made(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!made) return fail_errno("opening the new network namespace");
    return made;
}

Status NetNamespacePool::refill()
{
    while (ready_.size() < target_) {
        BERTH_TRY(auto fd, make_net_namespace());
        ready_.push_back(std::move(fd));
    }
    return {};
}

Result<UniqueFd> NetNamespacePool::take()
{
    if (ready_.empty()) return make_net_namespace();
    UniqueFd fd = std::move(ready_.back());
    ready_.pop_back();
    return fd;
}

} // namespace berth::sys
