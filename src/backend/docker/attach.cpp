#include "backend/docker/attach.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "backend/docker/inspect.hpp"
#include "backend/docker/mounts.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/keeper_image.hpp"
#include "keeping/native.hpp"
#include "sys/cgroup_maker.hpp"
#include "sys/remove_tree.hpp"
#include "sys/socket.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

/// One container is one sandbox, whoever attaches it and how often.
std::string id_of(const std::string& container)
{
    constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";
    const std::string hash = sha256_hex(container);
    std::string out = "sbx_";
    // The first digit of an id has few bits.
    for (std::size_t i = 0; i < 26; ++i) {
        const char c = hash[2 * i];
        const unsigned value =
            static_cast<unsigned>(c >= 'a' ? c - 'a' + 10 : c - '0') * 2 + (hash[2 * i + 1] & 1u);
        out += i == 0 ? '0' : digits[value % 32];
    }
    return out;
}

/// An entry of an old tar: names and sizes here are short.
std::string tar_entry(const std::string& name, char type, unsigned mode, std::string_view bytes)
{
    std::string head(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) { head.replace(at, text.size(), text); };
    put(0, name);
    put(100, fmt::format("{:07o}", mode));
    put(108, "0000000");
    put(116, "0000000");
    put(124, fmt::format("{:011o}", bytes.size()));
    put(136, "00000000000");
    head[156] = type;
    put(257, "ustar");
    put(263, "00");
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : head) sum += static_cast<unsigned char>(c);
    put(148, fmt::format("{:06o}", sum));
    head[154] = '\0';
    std::string out = head + std::string(bytes);
    out.resize((out.size() + 511) / 512 * 512, '\0');
    return out;
}

Result<std::string> keeper_bytes()
{
    BERTH_TRY(const int image, keeping::keeper_image());
    std::string bytes;
    char piece[65536];
    for (ssize_t n; (n = ::pread(image, &piece[0], sizeof piece, static_cast<off_t>(bytes.size()))) > 0;)
        bytes.append(&piece[0], static_cast<std::size_t>(n));
    return bytes;
}

/// A directory below a process's root, whatever links lie on the way.
Result<UniqueFd> open_in_root(int pid, const std::string& path)
{
    const UniqueFd root(::open(fmt::format("/proc/{}/root", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return fail_errno("opening the root of process {}", pid);
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
    UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
    if (!fd) return fail_errno("opening {} of process {}", path, pid);
    return fd;
}

/// Whether a process is one of the container's: the name of a socket in it can be taken by anybody inside.
bool lives_in(const Container& container, int pid)
{
    struct stat theirs{};
    struct stat its{};
    return ::stat(fmt::format("/proc/{}/ns/pid", container.pid).c_str(), &theirs) == 0 &&
           ::stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &its) == 0 && theirs.st_ino == its.st_ino &&
           theirs.st_dev == its.st_dev;
}

/// As far as that is possible: a directory of ours that stays does no harm.
void take_out(const Container& container, const Instance& instance)
{
    if (!container.running) {
        // No process has its root, and the engine has no word for removing a file. What is not mounted
        // anywhere may be changed where it lies.
        const UniqueFd upper(
            container.upper.starts_with('/')
                ? ::open(container.upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)
                : -1);
        if (upper) (void)sys::remove_tree(upper.get(), instance.inside.substr(1));
        return;
    }
    if (const auto place = open_in_root(container.pid, instance.inside)) {
        auto keeper = keeping::KeeperClient::connect(place->get(), "sock", 2s);
        const auto peer = keeper ? sys::peer_credentials(keeper->socket()) : Result<sys::PeerCredentials>{};
        if (keeper && peer && peer->pid != container.pid && lives_in(container, peer->pid))
            (void)::kill(peer->pid, SIGKILL);
    }
    const UniqueFd root(
        ::open(fmt::format("/proc/{}/root", container.pid).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root) return;
    // With all our rights: an image's root need not be writable, not even for its owner.
    (void)sys::remove_tree(root.get(), instance.inside.substr(1));
}

} // namespace

Result<UniqueFd> keeper_place(int directory, const Instance& instance)
{
    struct stat old{};
    if (!instance.inside.empty() || ::fstatat(directory, "in/sock", &old, AT_SYMLINK_NOFOLLOW) != 0)
        return open_in_root(instance.pid, instance.inside.empty() ? kInside : instance.inside);
    UniqueFd in(::openat(directory, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!in) return fail_errno("opening the keeper's place");
    return in;
}

Status insert_keeper(const Engine& engine, int directory, Instance& instance)
{
    BERTH_TRY(const auto container, inspect_container(engine, instance.container));
    if (!container.running || container.paused)
        return fail(Code::Conflict, "container {} is {}: a keeper can be put only into one that runs",
                    container.id.substr(0, 12), container.status);
    BERTH_CHECK(check_shown(container.pid, instance.spec, instance.pins));
    // What was put in before goes first: the socket of one that was stopped, or a keeper nobody noted.
    if (!instance.inside.empty()) take_out(container, instance);
    if (instance.inside.empty()) instance.inside = "/.berth-" + random_hex(6);
    // Whoever comes after us must know where to look for it.
    instance.pid = 0;
    BERTH_CHECK(write_instance(directory, instance));
    hooks::kill_point("docker: keeper to be put in");
    BERTH_TRY(const auto program, keeper_bytes());
    const std::string name = instance.inside.substr(1);
    const std::string archive = tar_entry(name + "/", '5', 0755, {}) +
                                tar_entry(name + "/keeper", '0', 0555, program) + std::string(1024, '\0');
    BERTH_TRY([[maybe_unused]] const auto put,
              engine.call({.method = "PUT",
                           .target = fmt::format("/containers/{}/archive?path=/", container.id),
                           .headers = {{"Content-Type", "application/x-tar"}},
                           .body = archive}));
    // What the engine was not asked for the keeper sees to: nothing it starts gains privileges.
    const bool bound = instance.spec.policy.privileges == policy::Privileges::None && instance.owned &&
                       !container.no_new_privileges;
    json::Array words{json::Value(instance.inside + "/keeper"), json::Value(bound ? "cn" : "c"),
                      json::Value(instance.inside + "/sock"), json::Value(std::to_string(::geteuid()))};
    json::Object wish;
    wish["Cmd"] = std::move(words);
    wish["User"] = "0:0";
    wish["WorkingDir"] = "/";
    BERTH_TRY(const auto made, engine.post(fmt::format("/containers/{}/exec", container.id), wish));
    BERTH_TRY(const auto id_at, json::Reader(made).at("Id"));
    BERTH_TRY(const auto id, id_at.string());
    BERTH_CHECK(check_engine_id(id));
    json::Object detached;
    detached["Detach"] = true;
    BERTH_TRY([[maybe_unused]] const auto started, engine.post("/exec/" + id + "/start", detached));
    for (const auto end = system_clock().steady() + kPatience;;) {
        BERTH_TRY(const auto document, engine.get("/exec/" + id + "/json"));
        BERTH_TRY(const auto pid_at, json::Reader(document).at("Pid"));
        BERTH_TRY(const auto pid, pid_at.integer(0, 1 << 30));
        instance.pid = static_cast<int>(pid);
        const auto process = sys::process_of(instance.pid);
        if (process)
            if (const auto place = keeper_place(directory, instance)) {
                auto keeper = keeping::KeeperClient::connect(place->get(), "sock", 2s);
                if (keeper && keeper->ping()) {
                    instance.start_time = process->start_time;
                    instance.boot = boot_id();
                    return write_instance(directory, instance);
                }
            }
        if (system_clock().steady() >= end)
            return fail(Code::Unavailable, "a keeper could not be put into container {}",
                        container.id.substr(0, 12));
        std::this_thread::sleep_for(10ms);
    }
}

Result<SandboxHandle> attach_container(const Where& where, const std::string& named)
{
    if (keeping::is_native(named)) {
        BERTH_TRY([[maybe_unused]] const auto directory, where.dirs.open(named, 0));
        return SandboxHandle{.sandbox = std::string(keeping::sandbox_of(named)), .native = named};
    }
    BERTH_TRY(const bool here, where.engine.here());
    if (!here || ::geteuid() != 0)
        return fail(Code::Unsupported, "containers are attached by root, on the machine of their engine");
    BERTH_TRY(const auto container, inspect_container(where.engine, named));
    // Labels go on to whatever is made of an image of ours: the name must be the instance's, too.
    const auto ours = identity_of(container.labels);
    if (ours && container.name == container_name(ours->first.native)) return ours->first;
    if (!container.running)
        return fail(Code::Conflict, "container {} is {}: only one that runs can be attached",
                    printable(named, 80), container.status);
    const std::string id = id_of(container.id);
    BERTH_TRY(const auto directory, where.dirs.make(id));
    const SandboxHandle handle{.sandbox = id, .native = id};
    if (read_instance(directory.get())) return handle;
    BERTH_CHECK(where.dirs.furnish(directory.get()));
    Instance instance;
    instance.owned = false;
    instance.spec.id = id;
    instance.container = container.id;
    instance.image = container.image;
    instance.defaults = container.defaults;
    BERTH_TRY(instance.engine, where.engine.identity());
    if (auto put = insert_keeper(where.engine, directory.get(), instance); !put) {
        (void)remove_keeper(where.engine, instance);
        (void)where.dirs.remove(id);
        return std::unexpected(std::move(put).error().while_doing("attaching " + printable(named, 80)));
    }
    return handle;
}

Result<Borrowed> tell_borrowed(const Where& where, const std::string& native)
{
    BERTH_TRY(const auto directory, where.dirs.open(native, 0));
    BERTH_TRY(const auto instance, read_instance(directory.get()));
    BERTH_CHECK(same_engine(where.engine, instance));
    BERTH_TRY(auto container, inspect_container(where.engine, instance.container));
    return Borrowed{.type = "docker_container",
                    .container = std::move(container.id),
                    .image = std::move(container.image_name),
                    .network = printable(container.network, 80),
                    .mounts = std::move(container.mounts),
                    .limits = container.limits};
}

Status remove_keeper(const Engine& engine, const Instance& instance)
{
    if (instance.inside.empty()) return {}; // it did not come that far
    const auto container = inspect_container(engine, instance.container);
    if (!container && container.error().code != Code::NotFound) return std::unexpected(container.error());
    if (container) take_out(*container, instance);
    return {};
}

Status release_container(const Where& where, const std::string& native)
{
    BERTH_CHECK(keeping::check_native(native));
    const auto locked = where.dirs.lock(native);
    if (!locked && locked.error().code == Code::NotFound) return {};
    if (!locked) return std::unexpected(locked.error());
    const auto read = read_instance(locked->get());
    if (!read && read.error().code == Code::NotFound) return {};
    if (!read) return std::unexpected(read.error());
    const Instance& instance = *read;
    if (instance.inside.empty()) return {};
    BERTH_CHECK(same_engine(where.engine, instance));
    BERTH_CHECK(remove_keeper(where.engine, instance));
    hooks::kill_point("docker: container released");
    return where.dirs.remove(native);
}

} // namespace berth::docker
