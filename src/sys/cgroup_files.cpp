#include "sys/cgroup_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {
namespace {

constexpr Bytes kMaxProcs = 64_MiB; // four million processes

std::vector<pid_t> parse_pids(const std::string& text)
{
    std::vector<pid_t> pids;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
        pid_t pid = 0;
        const auto [next, error] = std::from_chars(at, end, pid);
        // 0 stands for a process of another pid namespace, which we cannot name.
        if (error == std::errc() && pid > 0) pids.push_back(pid);
        at = std::find(next, end, '\n') + 1;
    }
    return pids;
}

} // namespace

void pause_for(std::chrono::microseconds time) noexcept
{
    const timespec pause{.tv_sec = 0, .tv_nsec = time.count() * 1000};
    ::nanosleep(&pause, nullptr);
}

std::optional<std::uint64_t> keyed_value(std::string_view text, std::string_view key)
{
    for (std::size_t at = 0; at < text.size();) {
        const auto end = std::min(text.find('\n', at), text.size());
        const auto line = text.substr(at, end - at);
        at = end + 1;
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
        std::uint64_t value = 0;
        const auto digits = line.substr(key.size() + 1);
        const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error == std::errc() && rest == digits.data() + digits.size()) return value;
    }
    return std::nullopt;
}

Result<bool> await_event(int group, std::string_view key, std::uint64_t value, Patience patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const UniqueFd events(::openat(group, "cgroup.events", O_RDONLY | O_CLOEXEC));
    if (!events) return fail_errno("opening cgroup.events");
    for (;;) {
        char text[256];
        const ssize_t size = ::pread(events.get(), text, sizeof text, 0);
        if (size < 0) return fail_errno("reading cgroup.events");
        if (keyed_value({text, static_cast<std::size_t>(size)}, key) == value) return true;
        const auto left = std::chrono::ceil<Patience>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return false;
        pollfd changed{.fd = events.get(), .events = POLLPRI, .revents = 0};
        const auto wait = std::min<Patience::rep>(left.count(), 1 << 30);
        if (::poll(&changed, 1, static_cast<int>(wait)) < 0 && errno != EINTR)
            return fail_errno("waiting for cgroup.events");
    }
}

Result<std::vector<pid_t>> processes_in(const std::string& group)
{
    BERTH_TRY(const auto text, read_file(group + "/cgroup.procs", kMaxProcs));
    return parse_pids(text);
}

std::vector<std::string> subgroups(const std::string& group)
{
    std::vector<std::string> names;
    const std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })> dir(::opendir(group.c_str()));
    if (!dir) return names;
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (entry->d_type == DT_DIR && name != "." && name != "..") names.push_back(name);
    }
    return names;
}

Result<std::size_t> kill_each(const std::string& group)
{
    std::size_t met = 0;
    for (const auto& name : subgroups(group)) {
        BERTH_TRY(const auto more, kill_each(group + "/" + name));
        met += more;
    }
    auto before = processes_in(group);
    if (!before) {
        if (before.error().code == Code::NotFound) return met; // removed meanwhile
        return std::unexpected(std::move(before).error());
    }
    // A number may have passed to a stranger since it was read. A pidfd keeps one process, and
    // what is still in the group after it was opened is the right one.
    std::vector<std::pair<pid_t, UniqueFd>> held;
    for (const pid_t pid : *before)
        if (UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); pidfd)
            held.emplace_back(pid, std::move(pidfd));
    BERTH_TRY(auto now, processes_in(group));
    std::ranges::sort(now);
    for (const auto& [pid, pidfd] : held)
        if (std::ranges::binary_search(now, pid))
            ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
    return met + before->size();
}

Status remove_group(const std::string& group, Patience patience)
{
    int err = 0;
    const bool gone = wait_until(patience, [&] {
        if (::rmdir(group.c_str()) == 0 || errno == ENOENT) {
            err = 0;
            return true;
        }
        err = errno;
        if (err != EBUSY && err != ENOTEMPTY) return true;
        for (const auto& name : subgroups(group))
            static_cast<void>(remove_group(group + "/" + name, Patience(0)));
        return false;
    });
    if (gone && err == 0) return {};
    return fail_with(err, "removing group {}", group);
}

void inherit_cpuset(const std::string& group)
{
    const std::string above = group.substr(0, group.rfind('/'));
    for (const char* file : {"/cpuset.cpus", "/cpuset.mems"})
        if (const auto set = read_file(above + file)) static_cast<void>(write_control(group + file, *set));
}

bool may_write(const std::string& path) noexcept
{
    return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

} // namespace berth::sys
