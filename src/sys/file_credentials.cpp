// Keeps host root's power away from files that strangers name: the thread that touches them has given it up.
// Relies on credentials being per thread in Linux; glibc's setgroups and friends change all threads, so the
// system calls are made directly.
#include "sys/file_credentials.hpp"

#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>

#include "base/log.hpp"
#include "base/scope_exit.hpp"

namespace berth::sys {
namespace {

using Capabilities = std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3>;

/// The kernel reports only the previous id, so ask again with an impossible one to learn the new.
Status set_fs_id(long number, unsigned id, std::string_view kind)
{
    ::syscall(number, id);
    const auto now = static_cast<unsigned>(::syscall(number, -1));
    if (now != id) return fail(Code::Denied, "this process may not touch files as {} {}", kind, id);
    return {};
}

Status set_capabilities(const Capabilities& wanted)
{
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    if (::syscall(SYS_capset, &header, wanted.data()) != 0)
        return fail_errno("setting the capabilities of a file thread");
    return {};
}

Result<Capabilities> capabilities()
{
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    Capabilities out{};
    if (::syscall(SYS_capget, &header, out.data()) != 0)
        return fail_errno("asking for the capabilities of a file thread");
    return out;
}

std::uint32_t kept(const FileCredentials& wanted)
{
    if (wanted.changes_all && ::geteuid() == 0)
        return 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_CHOWN;
    return wanted.reads_all ? 1u << CAP_DAC_READ_SEARCH : 0;
}

Status set_groups(const std::vector<gid_t>& groups, const FileCredentials& wanted)
{
    if (::syscall(SYS_setgroups, groups.size(), groups.data()) == 0) return {};
    // An ordinary user's sandbox runs with the user's own ids and keeps the user's groups, for
    // the same reason: only a privileged process may drop them.
    const bool own_ids = wanted.uid == ::geteuid() && wanted.gid == ::getegid();
    if (errno == EPERM && own_ids) return {};
    return fail_errno("setting the groups of uid {}", wanted.uid);
}

/// A change of fsuid makes the *whole process* non-dumpable (P13): it is put back, one thread at a time, or
/// the second would take the first one's change for the original.
template <class F> Status staying_dumpable(F change)
{
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const int before = ::prctl(PR_GET_DUMPABLE);
    const ScopeExit put_back([&] {
        if (before == 1) ::prctl(PR_SET_DUMPABLE, 1);
    });
    return change();
}

Status set_ids(const FileCredentials& wanted, const Capabilities& left)
{
    return staying_dumpable([&]() -> Status {
        BERTH_CHECK(set_fs_id(SYS_setfsgid, wanted.gid, "gid"));
        BERTH_CHECK(set_fs_id(SYS_setfsuid, wanted.uid, "uid"));
        return set_capabilities(left);
    });
}

/// What a thread had before it acted for somebody else.
struct Before {
    Capabilities capabilities;
    std::vector<gid_t> groups;
    mode_t mask = 0;
};

/// One of a thread's, the innermost: whoever acts for somebody else in the middle of it starts from the
/// thread's own rights again.
struct Acting {
    const FileCredentials& wanted;
    const Before& before;
};

thread_local const Acting* acting = nullptr;

Status take(const FileCredentials& wanted, const Before& before)
{
    ::umask(0);
    BERTH_CHECK(set_groups(wanted.groups, wanted));
    auto left = before.capabilities;
    for (auto& part : left) part.effective = 0;
    left[0].effective = left[0].permitted & kept(wanted);
    return set_ids(wanted, left);
}

Status come_back(const Before& before)
{
    ::umask(before.mask);
    const FileCredentials own{.uid = ::geteuid(), .gid = ::getegid()};
    BERTH_CHECK(set_capabilities(before.capabilities)); // the right to do the rest
    BERTH_CHECK(set_ids(own, before.capabilities));
    return set_groups(before.groups, own);
}

Result<Before> look_around()
{
    Before out;
    BERTH_TRY(out.capabilities, capabilities());
    out.mask = ::umask(0);
    ::umask(out.mask);
    std::array<gid_t, 64> few{};
    const int count = ::getgroups(static_cast<int>(few.size()), few.data());
    if (count >= 0) {
        out.groups.assign(few.begin(), few.begin() + count);
        return out;
    }
    out.groups.resize(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
    if (::getgroups(static_cast<int>(out.groups.size()), out.groups.data()) < 0)
        return fail_errno("asking for the groups of a file thread");
    return out;
}

/// A thread with the wrong rights is worse than none.
void must(const Status& changed)
{
    if (changed) return;
    log::error("a thread did not get its rights back", {{"why", changed.error().line()}});
    std::abort();
}

} // namespace

Status act_as(const FileCredentials& wanted, const std::function<void()>& job)
{
    // The umask is not the thread's own otherwise.
    thread_local bool alone = false;
    if (!alone && ::unshare(CLONE_FS) != 0) return fail_errno("giving a file thread a umask of its own");
    alone = true;

    const Acting* const outer = acting;
    if (outer != nullptr) must(come_back(outer->before));
    const ScopeExit back([&] {
        acting = outer;
        if (outer != nullptr) must(take(outer->wanted, outer->before));
    });
    BERTH_TRY(const auto before, look_around());
    const Acting now{.wanted = wanted, .before = before};
    const ScopeExit leave([&] { must(come_back(before)); });
    BERTH_CHECK(take(wanted, before));
    acting = &now;
    job();
    return {};
}

} // namespace berth::sys
