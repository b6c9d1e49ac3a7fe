// Attempts on what a deny pattern names: to have something else opened than was looked at, and every way
// around the path.

#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>

#include "probe.hpp"

namespace probe {
namespace {

void* run_function(void* argument)
{
    const std::unique_ptr<std::function<void()>> work(static_cast<std::function<void()>*>(argument));
    (*work)();
    return nullptr;
}

pthread_t thread(std::function<void()> work)
{
    pthread_t id{};
    ::pthread_create(&id, nullptr, run_function, new std::function<void()>(std::move(work)));
    return id;
}

/// What is in a file, as far as tests look.
std::string contents(int fd)
{
    char text[64] = {};
    const ssize_t n = ::read(fd, text, sizeof text - 1);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string{};
}

int read_now(int fd)
{
    if (fd < 0) return errno;
    const std::string text = contents(fd);
    return say("read " + text.substr(0, text.find('\n')));
}

/// Opens a path that another thread changes between two texts of one length.
int path_race(const Words& w)
{
    const std::string plain = w.at(0);
    const std::string secret = w.at(1);
    char path[4096] = {};
    std::memcpy(path, plain.data(), plain.size());
    std::atomic<bool> stop = false;
    const auto other = thread([&] {
        while (!stop) {
            std::memcpy(path, secret.data(), secret.size());
            std::memcpy(path, plain.data(), plain.size());
        }
    });
    bool leaked = false;
    int opened = 0;
    for (int i = 0; i < std::stoi(w.at(2)); ++i) {
        const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ++opened;
        leaked |= contents(fd).starts_with("the secret");
        ::close(fd);
    }
    stop = true;
    ::pthread_join(other, nullptr);
    return say(leaked ? "leaked" : opened == 0 ? "never opened" : "held");
}

/// Opens a link that another thread changes between two targets.
int link_race(const Words& w)
{
    std::atomic<bool> stop = false;
    const std::string link = w.at(2);
    const auto other = thread([&] {
        const std::string next = link + ".next";
        while (!stop)
            for (const auto& target : {w.at(1), w.at(0)}) {
                (void)!::symlink(target.c_str(), next.c_str());
                ::rename(next.c_str(), link.c_str());
            }
    });
    bool leaked = false;
    int opened = 0;
    for (int i = 0; i < std::stoi(w.at(3)); ++i) {
        const int fd = ::open(link.c_str(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) continue;
        ++opened;
        leaked |= contents(fd).starts_with("the secret");
        ::close(fd);
    }
    stop = true;
    ::pthread_join(other, nullptr);
    return say(leaked ? "leaked" : opened == 0 ? "never opened" : "held");
}

/// Executes a path that another process changes between two programs; the second one says "leaked".
int exec_race(const Words& w)
{
    auto* const path =
        static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    std::memcpy(path, w.at(0).data(), w.at(0).size());
    const pid_t other = ::fork();
    if (other == 0)
        for (;;) {
            std::memcpy(path, w.at(1).data(), w.at(1).size());
            std::memcpy(path, w.at(0).data(), w.at(0).size());
        }
    int ran = 0;
    for (int i = 0; i < std::stoi(w.at(2)); ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
            char name[] = "probe";
            char word[] = "leaked";
            char* argv[] = {name, word, nullptr};
            ::execv(path, argv);
            ::_exit(1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        ran += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 1 : 0;
    }
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
    return say(ran == 0 ? "never ran" : "over");
}

int leaked(const Words&) { return say("leaked"); }

std::string link_of(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

/// A descriptor for the path alone, and every way to make more of it.
int path_descriptor(const Words& w)
{
    const int fd = ::open(w.at(0).c_str(), O_PATH | O_CLOEXEC);
    if (fd < 0) return errno;
    const auto tell = [](const char* way, long result) {
        say(std::string(way) + " " + (result < 0 ? ::strerrorname_np(errno) : "ok"));
    };
    tell("open", ::open(link_of(fd).c_str(), O_RDONLY));
    tell("write", ::open(link_of(fd).c_str(), O_WRONLY));
    tell("openat", ::openat(fd, "", O_RDONLY));
    tell("link", ::linkat(AT_FDCWD, link_of(fd).c_str(), AT_FDCWD, "linked", AT_SYMLINK_FOLLOW));
    tell("link-empty", ::linkat(fd, "", AT_FDCWD, "linked", AT_EMPTY_PATH));
    tell("truncate", ::truncate(link_of(fd).c_str(), 0));
    tell("chmod", ::chmod(link_of(fd).c_str(), 0777));
    char* argv[] = {nullptr};
    tell("exec", ::syscall(SYS_execveat, fd, "", argv, argv, AT_EMPTY_PATH));
    return kSaid;
}

int by_dirfd(const Words& w)
{
    const int dir = ::open(w.at(0).c_str(), O_RDONLY | O_DIRECTORY);
    return dir < 0 ? errno : read_now(::openat(dir, w.at(1).c_str(), O_RDONLY));
}

int by_fchdir(const Words& w)
{
    const int dir = ::open(w.at(0).c_str(), O_PATH | O_DIRECTORY);
    if (dir < 0 || ::fchdir(dir) != 0) return errno;
    return read_now(::open(w.at(1).c_str(), O_RDONLY));
}

/// A thread with a working directory and descriptors of its own, of which the process has others.
int by_own_thread(const Words& w)
{
    int result = 0;
    const auto other = thread([&] {
        if (::unshare(CLONE_FS | CLONE_FILES) != 0 || ::chdir(w.at(0).c_str()) != 0) {
            result = errno;
            return;
        }
        result = read_now(::open(w.at(1).c_str(), O_RDONLY));
    });
    ::pthread_join(other, nullptr);
    return result;
}

int by_openat2(const Words& w)
{
    open_how how{};
    how.flags = O_RDONLY;
    return read_now(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, w.at(0).c_str(), &how, sizeof how)));
}

/// Threads that open, read and close; prints how many got what they wanted.
int many_opens(const Words& w)
{
    std::atomic<int> good = 0;
    std::vector<pthread_t> all;
    for (int i = 0; i < std::stoi(w.at(2)); ++i)
        all.push_back(thread([&] {
            for (int n = 0; n < std::stoi(w.at(1)); ++n) {
                const int fd = ::open(w.at(0).c_str(), O_RDONLY | O_CLOEXEC);
                if (fd < 0) continue;
                if (contents(fd) == "mine\n") ++good;
                ::close(fd);
            }
        }));
    for (const auto id : all) ::pthread_join(id, nullptr);
    return say(std::to_string(good.load()));
}

/// A reader of a pipe nobody writes to, which a signal calls away.
int interrupted_open(const Words& w)
{
    struct sigaction handled{};
    handled.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &handled, nullptr);
    ::alarm(1);
    return outcome(::open(w.at(0).c_str(), O_RDONLY));
}

int kill_process(const Words& w) { return outcome(::kill(std::stoi(w.at(0)), SIGKILL)); }
int symlink_at(const Words& w) { return outcome(::symlink(w.at(0).c_str(), w.at(1).c_str())); }
int make_directory(const Words& w) { return outcome(::mkdir(w.at(0).c_str(), 0755)); }
int remove_name(const Words& w) { return outcome(::unlink(w.at(0).c_str())); }
int set_times(const Words& w) { return outcome(::utimensat(AT_FDCWD, w.at(0).c_str(), nullptr, 0)); }

int make_nameless(const Words& w)
{
    const int fd = ::open(w.at(0).c_str(), O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) return errno;
    return outcome(::linkat(AT_FDCWD, link_of(fd).c_str(), AT_FDCWD, w.at(1).c_str(), AT_SYMLINK_FOLLOW));
}

int execute(const Words& w)
{
    char* argv[] = {const_cast<char*>(w.at(0).c_str()), nullptr};
    return outcome(::execv(w.at(0).c_str(), argv));
}

constexpr Entry kEntries[] = {
    {"path-race", path_race},
    {"link-race", link_race},
    {"exec-race", exec_race},
    {"leaked", leaked},
    {"path-descriptor", path_descriptor},
    {"by-dirfd", by_dirfd},
    {"by-fchdir", by_fchdir},
    {"by-own-thread", by_own_thread},
    {"by-openat2", by_openat2},
    {"many-opens", many_opens},
    {"interrupted-open", interrupted_open},
    {"kill-process", kill_process},
    {"symlink", symlink_at},
    {"mkdir", make_directory},
    {"unlink", remove_name},
    {"touch", set_times},
    {"nameless", make_nameless},
    {"execute", execute},
};

} // namespace

std::span<const Entry> pattern_probes() { return kEntries; }

} // namespace probe
