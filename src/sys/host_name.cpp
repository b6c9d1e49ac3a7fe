#include "sys/host_name.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>

#include "base/scope_exit.hpp"
#include "base/unique_fd.hpp"
#include "sys/child.hpp"
#include "sys/launch.hpp"

namespace berth::sys {

namespace {

/// This thread goes there and comes back.
Status by_this_thread(int pidfd, std::string_view name)
{
    const UniqueFd home(::open("/proc/thread-self/ns/uts", O_RDONLY | O_CLOEXEC));
    if (!home) return fail_errno("opening our own host name's namespace");
    if (::setns(pidfd, CLONE_NEWUTS) != 0) return fail_errno("entering the host name's namespace");
    const ScopeExit back([&] {
        // A thread that stays would name the sandbox when it means the host.
        if (::setns(home.get(), CLONE_NEWUTS) != 0) std::abort();
    });
    if (::sethostname(name.data(), name.size()) != 0) return fail_errno("setting the host name");
    return {};
}

/// A process with threads cannot enter a user namespace: a child of its own does.
Status by_a_child(int pidfd, std::string_view name)
{
    StepList list;
    list.say("entering the host name's namespace");
    list.set_namespace(list.borrow(pidfd), CLONE_NEWUSER | CLONE_NEWUTS);
    list.say("setting the host name");
    list.hostname(name);
    BERTH_TRY(auto launched, launch(list, {}));
    auto child = Child::own(launched.pid, std::move(launched.pidfd));
    BERTH_TRY(const auto ended, child.wait());
    if (!ended.success()) return fail(Code::Unavailable, "setting the host name: {}", to_string(ended));
    return {};
}

} // namespace

Status set_host_name(int pidfd, std::string_view name, Through privilege)
{
    return privilege == Through::Ours ? by_this_thread(pidfd, name) : by_a_child(pidfd, name);
}

} // namespace berth::sys
