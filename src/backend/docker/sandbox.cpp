// A container of ours as one process works with it. Everything goes through its keeper, which the engine
// started as pid 1; the engine itself is asked only when the keeper does not answer.

#include "backend/docker/sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/docker/attach.hpp"
#include "backend/docker/exec_place.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/mounts.hpp"
#include "base/strings.hpp"
#include "keeping/lock.hpp"
#include "sys/cgroup_maker.hpp"
#include "sys/socket.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr int kDyingMs = 1000;

Result<keeping::KeeperClient> connect(int directory, const Instance& instance)
{
    BERTH_TRY(const auto in, keeper_place(directory, instance));
    return keeping::KeeperClient::connect(in.get(), "sock", kPatience);
}

/// By the process that the record names; its number may be another's by now.
Result<keeping::KeeperClient> connect_recorded(int directory, const Instance& instance)
{
    const auto now = sys::process_of(instance.pid);
    if (!now || now->start_time != instance.start_time || instance.boot != boot_id())
        return fail(Code::Unavailable, "the keeper that was known has ended");
    return connect(directory, instance);
}

/// Why its keeper does not answer.
Error not_there(const Engine& engine, const Instance& instance, const std::string& native, Error seen)
{
    const auto document = engine.get("/containers/" + instance.container + "/json");
    if (!document) {
        Error error = document.error();
        if (error.code == Code::NotFound) error.message = fmt::format("the container of {} is gone", native);
        return error;
    }
    const auto container = parse_container(*document);
    if (!container) return container.error();
    Error out{.code = Code::Conflict, .message = {}};
    if (container->paused)
        out.message = fmt::format("sandbox {} is paused: berth resume {}", native, native);
    else if (!container->running)
        out.message = fmt::format("sandbox {} is stopped: berth start {}", native, native);
    else
        return std::move(seen).while_doing("asking the keeper of " + native);
    return out;
}

} // namespace

Result<FoundKeeper> find_keeper(int directory, const Engine& engine, const std::string& native)
{
    BERTH_TRY(auto instance, read_instance(directory));
    auto client = connect_recorded(directory, instance);
    // Somebody may have started it anew behind our back.
    if (!client && instance.inside.empty())
        if (const auto now = inspect_container(engine, instance.container);
            now && now->running && now->pid > 0) {
            Instance again = instance;
            again.pid = now->pid;
            client = connect(directory, again);
        }
    // A container of somebody else may have been started anew: then there is none in it.
    if (!client && !instance.inside.empty()) {
        // Somebody else may be putting one in at this moment, or just have done so.
        const UniqueFd lock(
            ::openat(directory, "insert.lock", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
        if (!lock) return fail_errno("opening the lock of {}", native);
        if (!keeping::lock_within(lock.get(), keeping::Use::Alone, keeping::kLockPatience))
            return fail(Code::Unavailable, "somebody has been putting a keeper into {} for a long time",
                        native);
        BERTH_TRY(instance, read_instance(directory));
        client = connect_recorded(directory, instance);
    }
    if (!client && !instance.inside.empty()) {
        if (auto put = insert_keeper(engine, directory, instance); !put) {
            if (!instance.owned) return std::unexpected(std::move(put).error());
            return std::unexpected(not_there(engine, instance, native, std::move(put).error()));
        }
        client = connect(directory, instance);
    }
    if (!client) return std::unexpected(not_there(engine, instance, native, std::move(client).error()));
    // The socket's name can be taken by whoever is root inside. Only the process the engine started counts.
    BERTH_TRY(const auto peer, sys::peer_credentials(client->socket()));
    auto now = sys::process_of(peer.pid);
    const bool known = now && peer.pid == instance.pid && now->start_time == instance.start_time &&
                       instance.boot == boot_id();
    if (!known) {
        const auto document = engine.get("/containers/" + instance.container + "/json");
        if (!document && document.error().code == Code::NotFound)
            return fail(Code::NotFound, "the container of {} is gone", native);
        if (!document) return std::unexpected(document.error());
        BERTH_TRY(const auto container, parse_container(*document));
        if (!container.running)
            return fail(Code::Conflict, "sandbox {} is stopped: berth start {}", native, native);
        if (container.pid != peer.pid && instance.inside.empty())
            return fail(Code::Unavailable, "somebody else answers in place of the keeper of {}", native);
        now = sys::process_of(peer.pid);
        if (!now) return fail(Code::Unavailable, "the keeper of {} has just ended", native);
        BERTH_CHECK(check_shown(peer.pid, instance.spec, instance.pins));
        instance.pid = peer.pid;
        instance.start_time = now->start_time;
        instance.boot = boot_id();
        BERTH_CHECK(write_instance(directory, instance));
    }
    UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
    if (!pidfd) return fail_errno("opening the keeper of {}", native);
    return FoundKeeper{
        .instance = std::move(instance), .client = *std::move(client), .pidfd = std::move(pidfd)};
}

Result<Sandbox> Sandbox::open(const InstanceDirs& dirs, const Engine& engine, const std::string& native)
{
    BERTH_TRY(auto directory, dirs.open(native, 0));
    auto found = find_keeper(directory.get(), engine, native);
    if (!found && found.error().code == Code::NotFound && found.error().sys)
        return fail(Code::NotFound, "sandbox {} was never finished", native);
    if (!found) return std::unexpected(std::move(found).error());
    if (auto answered = found->client.ping(); !answered)
        return std::unexpected(not_there(engine, found->instance, native, std::move(answered).error()));
    UniqueFd state(::fcntl(dirs.fd(), F_DUPFD_CLOEXEC, 0));
    if (!state) return fail_errno("holding the state directory");
    return Sandbox(native, std::move(state), std::move(directory), std::move(found->instance),
                   std::move(found->client), std::move(found->pidfd));
}

bool Sandbox::alive() const
{
    pollfd ends[2] = {{.fd = pidfd_.get(), .events = POLLIN, .revents = 0},
                      {.fd = keeper_.socket(), .events = 0, .revents = 0}};
    if (::poll(&ends[0], 2, 0) == 0) return true;
    if (ends[0].revents == 0) ::poll(&ends[0], 1, kDyingMs);
    return false;
}

Result<UniqueFd> Sandbox::root() const
{
    UniqueFd fd(
        ::open(fmt::format("/proc/{}/root", instance_.pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const int error = errno;
    // One that is being killed loses its memory first, and the kernel then denies its links.
    if (pollfd end{.fd = pidfd_.get(), .events = POLLIN, .revents = 0}; !fd && ::geteuid() == 0)
        ::poll(&end, 1, kDyingMs);
    // It has had the number all the time if it has it still.
    if (!alive()) return fail(Code::Unavailable, "the keeper of {} is gone", id());
    if (!fd && (error == EACCES || error == EPERM))
        return fail(Code::Unsupported, "the files of a container are reached through its processes, which "
                                       "needs root: run berth as root");
    if (!fd) return fail_with(error, "opening the root of {}", id());
    return fd;
}

Result<keeping::Account> Sandbox::account(const std::string& user) const
{
    const auto etc = [&](const std::string& name) -> Result<std::string> {
        BERTH_TRY(auto top, root());
        BERTH_TRY(const auto files,
                  sys::SandboxFiles::open(std::move(top), {.uid = ::geteuid(), .gid = ::getegid()}));
        auto text = files.read("/" + name, 1_MiB);
        if (!text && text.error().code == Code::NotFound) return std::string{};
        return text;
    };
    return account_of(instance_, user, etc);
}

Result<sys::SandboxFiles> Sandbox::files(const std::string& user) const
{
    BERTH_TRY(const auto who, account(user));
    BERTH_TRY(auto top, root());
    return sys::SandboxFiles::open(std::move(top), {.uid = who.uid, .gid = who.gid});
}

Result<keeping::Trees> Sandbox::trees(const std::string& user) const
{
    BERTH_TRY(const auto who, account(user));
    BERTH_TRY(auto own, files(user));
    keeping::Trees out{.files = std::move(own), .reader = std::nullopt, .ids = {}};
    if (who.uid != 0) return out;
    // Root of a container may read what belongs to any of its users.
    BERTH_TRY(auto top, root());
    BERTH_TRY(out.reader,
              sys::SandboxFiles::open(std::move(top), {.uid = 0, .gid = who.gid, .reads_all = true}));
    return out;
}

} // namespace berth::docker
