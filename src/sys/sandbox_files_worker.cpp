// Keeps host root's power away from the files of a sandbox: the thread that touches them has
// already given all of it up. Relies on credentials being per thread in Linux; glibc's setgroups and
// friends change all threads, so the system calls are made directly.
#include "sys/sandbox_files_worker.hpp"

#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace berth::sys {
namespace {

/// The kernel reports only the previous id, so ask again with an impossible one to learn the new.
Status set_fs_id(long number, unsigned id, std::string_view kind)
{
    ::syscall(number, id);
    const auto now = static_cast<unsigned>(::syscall(number, -1));
    if (now != id) return fail(Code::Denied, "this process may not touch files as {} {}", kind, id);
    return {};
}

Status drop_capabilities(const FileCredentials& wanted)
{
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct kept[_LINUX_CAPABILITY_U32S_3] = {};
    if (wanted.reads_all) kept[0].effective = kept[0].permitted = 1u << CAP_DAC_READ_SEARCH;
    if (wanted.changes_all && ::geteuid() == 0)
        kept[0].effective = kept[0].permitted = 1u << CAP_DAC_OVERRIDE | 1u << CAP_FOWNER | 1u << CAP_CHOWN;
    if (::syscall(SYS_capset, &header, kept) != 0)
        return fail_errno("dropping the capabilities of a file thread");
    return {};
}

Status take_credentials(const FileCredentials& wanted)
{
    if (::unshare(CLONE_FS) != 0) return fail_errno("giving a file thread a umask of its own");
    ::umask(0);
    const bool own_ids = wanted.uid == ::geteuid() && wanted.gid == ::getegid();
    if (::syscall(SYS_setgroups, wanted.groups.size(), wanted.groups.data()) != 0) {
        // An ordinary user's sandbox runs with the user's own ids and keeps the user's groups, for
        // the same reason: only a privileged process may drop them.
        if (errno != EPERM || !own_ids) return fail_errno("setting the groups of uid {}", wanted.uid);
    }
    // A change of fsuid makes the *whole process* non-dumpable (P13): put it back, one thread at a
    // time, or the second would take the first one's change for the original.
    static std::mutex dumpable;
    const std::lock_guard lock(dumpable);
    const int before = ::prctl(PR_GET_DUMPABLE);
    Status taken = set_fs_id(SYS_setfsgid, wanted.gid, "gid");
    if (taken) taken = set_fs_id(SYS_setfsuid, wanted.uid, "uid");
    if (taken) taken = drop_capabilities(wanted);
    if (before == 1) ::prctl(PR_SET_DUMPABLE, 1);
    return taken;
}

} // namespace

Result<std::unique_ptr<FileWorker>> FileWorker::start(FileCredentials credentials)
{
    std::unique_ptr<FileWorker> worker(new FileWorker);
    // The thread inherits our mask: signals stay the business of the threads that wait for them.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    worker->thread_ = std::thread([self = worker.get(), ids = std::move(credentials)] { self->loop(ids); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    std::unique_lock lock(worker->mutex_);
    worker->changed_.wait(lock, [&] { return worker->ready_.has_value(); });
    if (!*worker->ready_) {
        auto error = std::move(*worker->ready_).error();
        lock.unlock();
        return std::unexpected(std::move(error));
    }
    lock.unlock();
    return worker;
}

FileWorker::~FileWorker()
{
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

void FileWorker::perform(const std::function<void()>& job)
{
    const std::lock_guard serial(callers_);
    std::unique_lock lock(mutex_);
    job_ = &job;
    changed_.notify_all();
    changed_.wait(lock, [&] { return job_ == nullptr; });
}

void FileWorker::loop(const FileCredentials& credentials)
{
    Status taken = take_credentials(credentials);
    const bool usable = taken.has_value();
    std::unique_lock lock(mutex_);
    ready_ = std::move(taken);
    changed_.notify_all();
    while (usable) {
        changed_.wait(lock, [&] { return stop_ || job_ != nullptr; });
        if (stop_) return;
        (*job_)();
        job_ = nullptr;
        changed_.notify_all();
    }
}

} // namespace berth::sys
