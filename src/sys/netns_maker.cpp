// The maker of a network namespace: shares its parent's memory while that goes on, so it makes raw system
// calls only, and is built without sanitizers, whose bookkeeping is the parent's.

#include <fcntl.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>

#include "sys/netns_beside.hpp"
#include "sys/raw_syscall.hpp"

namespace berth::sys {

namespace {

long make() noexcept
{
    if (const long r = raw(SYS_unshare, CLONE_NEWNET); r < 0) return r;
    if (const long r = raise_loopback(); r < 0) return r;
    // Root inside does not own the namespace, so low ports must need no capability. A host may have its
    // sysctls read-only; then they do.
    static const char path[] = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
    const long fd = raw(SYS_open, arg(&path[0]), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return fd == -EACCES ? 0 : fd;
    const long n = raw(SYS_write, fd, arg("0"), 1);
    raw(SYS_close, fd);
    return n < 0 ? n : 0;
}

} // namespace

long raise_loopback() noexcept
{
    const long fd = raw(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0) return fd;
    struct {
        nlmsghdr head;
        ifinfomsg body;
    } request{};
    request.head.nlmsg_len = sizeof request;
    request.head.nlmsg_type = RTM_NEWLINK;
    request.head.nlmsg_flags = NLM_F_REQUEST;
    request.body.ifi_index = 1; // loopback is the first interface of every network namespace
    request.body.ifi_flags = IFF_UP;
    request.body.ifi_change = IFF_UP;
    const long r = raw(SYS_sendto, fd, arg(&request), sizeof request);
    raw(SYS_close, fd);
    return r < 0 ? r : 0;
}

int make_net_namespace_beside(void* argument) noexcept
{
    auto& order = *static_cast<NetNamespaceOrder*>(argument);
    // Whoever is killed while it waits for us leaves nobody behind.
    raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (raw(SYS_getppid) != order.from) return 0;
    const auto told = static_cast<unsigned long>(1 - make());
    __atomic_store_n(&order.busy, 0, __ATOMIC_RELEASE);
    raw(SYS_futex, arg(&order.busy), FUTEX_WAKE, 1);
    raw(SYS_write, order.ready, arg(&told), sizeof told);
    for (;;) raw(SYS_pause);
}

} // namespace berth::sys
