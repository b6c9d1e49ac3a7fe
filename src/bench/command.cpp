#include "bench/command.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "bench/context.hpp"
#include "sys/child.hpp"
#include "sys/launch.hpp"

namespace berth::bench {

Result<Command> Command::make(const std::vector<std::string>& argv, const Options& options)
{
    Command command;
    command.name_ = argv.front();
    command.namespaces_ = options.namespaces;
    command.foreign_ = options.foreign;
    auto& list = command.steps_;
    if (options.mount_namespace >= 0) list.set_namespace(list.borrow(options.mount_namespace), CLONE_NEWNS);
    if (options.quiet) {
        UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
        if (!null) return fail_errno("opening /dev/null");
        command.complaints_.reset(::memfd_create("complaints", MFD_CLOEXEC));
        if (!command.complaints_) return fail_errno("making a file in memory");
        ::fcntl(command.complaints_.get(), F_SETFL, O_APPEND);
        const auto nowhere = list.own(std::move(null));
        list.dup(nowhere, 0);
        list.dup(nowhere, 1);
        list.dup(list.borrow(command.complaints_.get()), 2);
    }
    list.exec_path({argv.front()}, argv,
                   {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"});
    return command;
}

Result<double> Command::time()
{
    // bwrap ends before its own child: the orphan goes to the next subreaper that is one at that moment.
    if (foreign_) ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    const ScopeExit again([this] {
        if (foreign_) ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    });
    const Stopwatch watch;
    BERTH_TRY(auto launched, sys::launch(steps_, {.namespaces = namespaces_}));
    auto child = sys::Child::own(launched.pid, std::move(launched.pidfd));
    BERTH_TRY(const auto status, child.wait());
    const double taken = watch.nanoseconds();
    if (status.success()) return taken;
    std::string said(400, '\0');
    const auto size = complaints_ ? ::pread(complaints_.get(), said.data(), said.size(), 0) : 0;
    said.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return fail(Code::Internal, "{} ended with {}{}{}", name_, to_string(status), said.empty() ? "" : ": ",
                printable(said));
}

std::string find_program(const std::string& name)
{
    const char* path = std::getenv("PATH"); // NOLINT(concurrency-mt-unsafe): one thread
    auto directories = split(path == nullptr ? "" : path, ':');
    directories.insert(directories.end(), {"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"});
    for (const auto& directory : directories) {
        if (!directory.starts_with('/')) continue;
        std::string candidate = directory + "/" + name;
        if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    }
    return {};
}

Result<std::string> own_program()
{
    std::string path(4096, '\0');
    const auto size = ::readlink("/proc/self/exe", path.data(), path.size());
    if (size < 0) return fail_errno("finding our own program");
    path.resize(static_cast<std::size_t>(size));
    return path;
}

} // namespace berth::bench
