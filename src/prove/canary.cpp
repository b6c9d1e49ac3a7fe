// What answers here says one word and hangs up; nothing that is sent is looked at.

#include "prove/canary.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::prove {

namespace {

struct Address {
    sockaddr_storage storage{};
    socklen_t size = 0;
    [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address loopback(int family)
{
    Address out;
    if (family == AF_INET6) {
        sockaddr_in6 in{};
        in.sin6_family = AF_INET6;
        in.sin6_addr = in6addr_loopback;
        std::memcpy(&out.storage, &in, out.size = sizeof in);
    } else {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        std::memcpy(&out.storage, &in, out.size = sizeof in);
    }
    return out;
}

/// A path, or an abstract name led by '@'.
Result<Address> local(const std::string& name)
{
    Address out;
    sockaddr_un un{};
    un.sun_family = AF_UNIX;
    if (name.size() >= sizeof un.sun_path) return fail(Code::Invalid, "socket name {} is too long", name);
    std::memcpy(&un.sun_path[0], name.data(), name.size());
    const bool abstract = name.front() == '@';
    if (abstract) un.sun_path[0] = '\0';
    out.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + (abstract ? 0 : 1));
    std::memcpy(&out.storage, &un, sizeof un);
    return out;
}

/// A listener, or nothing: a machine may lack IPv6.
UniqueFd listener(Address& address, int type)
{
    UniqueFd fd(::socket(address.get()->sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd || ::bind(fd.get(), address.get(), address.size) != 0) return {};
    if (type == SOCK_STREAM && ::listen(fd.get(), 16) != 0) return {};
    ::getsockname(fd.get(), address.get(), &address.size);
    return fd;
}

std::uint16_t port_of(Address& address)
{
    const auto* in = reinterpret_cast<const sockaddr_in*>(address.get());
    return ntohs(in->sin_port); // at the same place for both families
}

/// The control: what cannot be reached from here would prove nothing.
bool reachable(Address& address)
{
    const UniqueFd fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return fd && ::connect(fd.get(), address.get(), address.size) == 0;
}

void answer(int fd, const std::string& word)
{
    char byte = 0;
    Address from{.size = sizeof(sockaddr_storage)};
    const UniqueFd peer(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (peer) {
        (void)::send(peer.get(), word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        return;
    }
    if (::recvfrom(fd, &byte, 1, MSG_DONTWAIT, from.get(), &from.size) >= 0)
        (void)::sendto(fd, word.data(), word.size(), MSG_NOSIGNAL | MSG_DONTWAIT, from.get(), from.size);
}

constexpr std::string_view kPrefix = "berth-prove-";
constexpr const char* kOther = "other"; ///< in our private directory: the path of the public one

Result<std::string> own_directory(const std::string& above, mode_t mode)
{
    std::string path = fmt::format("{}/{}XXXXXX", above, kPrefix);
    if (::mkdtemp(path.data()) == nullptr) return fail_errno("making a directory in {}", above);
    if (::chmod(path.c_str(), mode) != 0) return fail_errno("opening {} to others", path);
    return path;
}

/// Where everybody may go: TMPDIR, unless somewhere on the way there others are not let in.
std::string public_place()
{
    const char* const named = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::error_code failed;
    const auto place = std::filesystem::canonical(named == nullptr ? "" : named, failed);
    if (failed || *named != '/') return "/tmp";
    for (auto at = place;; at = at.parent_path()) {
        struct stat st{};
        if (::stat(at.c_str(), &st) != 0 || !S_ISDIR(st.st_mode) || (st.st_mode & S_IXOTH) == 0)
            return "/tmp";
        if (at == at.parent_path()) return place;
    }
}

void remove_directory(const std::string& directory)
{
    for (const char* name : {"canary", "socket", kOther}) ::unlink((directory + "/" + name).c_str());
    ::rmdir(directory.c_str());
}

/// What a killed proof left: its private directory names the public one, and nobody holds its lock any more.
void sweep(const std::string& data)
{
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(data, ignored)) {
        const std::string path = entry.path();
        if (!entry.path().filename().string().starts_with(kPrefix)) continue;
        const UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!lock || ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
        const auto other = read_file_at(lock.get(), kOther);
        struct stat st{};
        if (other && ::lstat(other->c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::geteuid())
            remove_directory(*other);
        remove_directory(path);
    }
}

/// Field 22 of /proc/self/stat; the name before it may hold anything.
std::uint64_t own_start()
{
    const auto text = read_file_at(AT_FDCWD, "/proc/self/stat");
    if (!text) return 0;
    const auto fields = split(text->substr(text->rfind(')') + 2), ' ');
    if (fields.size() < 20) return 0;
    return static_cast<std::uint64_t>(parse_int(fields[19], 0, INT64_MAX, "start time").value_or(0));
}

} // namespace

Result<Canary> Canary::put_up(const std::string& data)
{
    Canary out;
    out.bait_.word = "berth-canary-" + random_hex(16);
    out.bait_.pid = static_cast<std::uint64_t>(::getpid());
    out.bait_.pid_start = own_start();
    BERTH_CHECK(out.make_files(data));
    BERTH_CHECK(out.listen_all());
    return out;
}

Status Canary::make_files(const std::string& data)
{
    sweep(data);
    // One that everybody may read, so that no permission of its own refuses; and one where all of ours lies.
    BERTH_TRY(const auto inner, own_directory(data, 0700));
    directories_.push_back(inner);
    held_.reset(::open(inner.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!held_ || ::flock(held_.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno("locking {}", inner);
    BERTH_TRY(const auto outer, own_directory(public_place(), 0755));
    directories_.push_back(outer);
    BERTH_CHECK(replace_file_at(held_.get(), kOther, outer));
    for (const auto& directory : {outer, inner}) {
        const std::string file = directory + "/canary";
        const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        if (!fd) return fail_errno("making {}", file);
        if (::fchmod(fd.get(), 0644) != 0) return fail_errno("opening {} to others", file);
        BERTH_CHECK(write_all(fd.get(), bait_.word + "\n"));
        bait_.files.push_back(file);
    }
    return {};
}

Status Canary::listen_all()
{
    for (const int family : {AF_INET, AF_INET6}) {
        Address address = loopback(family);
        UniqueFd fd = listener(address, SOCK_STREAM);
        if (!fd || !reachable(address)) continue;
        (family == AF_INET ? bait_.tcp4 : bait_.tcp6) = port_of(address);
        listeners_.push_back(std::move(fd));
    }
    Address datagrams = loopback(AF_INET);
    if (UniqueFd fd = listener(datagrams, SOCK_DGRAM)) {
        bait_.udp4 = port_of(datagrams);
        listeners_.push_back(std::move(fd));
    }
    const std::string path = directories_.back() + "/socket";
    for (const auto& name : {path, "@" + bait_.word}) {
        BERTH_TRY(auto address, local(name));
        UniqueFd fd = listener(address, SOCK_STREAM);
        if (!fd) continue;
        if (name == path) ::chmod(path.c_str(), 0777);
        BERTH_TRY(auto again, local(name));
        if (!reachable(again)) continue;
        (name == path ? bait_.socket : bait_.abstract) = name;
        listeners_.push_back(std::move(fd));
    }
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_) return fail_errno("making an event for listeners");
    std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
    for (const auto& fd : listeners_) waiting.push_back({fd.get(), POLLIN, 0});
    answers_ = std::jthread([waiting, word = bait_.word]() mutable {
        while (::poll(waiting.data(), waiting.size(), -1) >= 0 || errno == EINTR) {
            if (waiting.front().revents != 0) return;
            for (std::size_t i = 1; i < waiting.size(); ++i)
                if (waiting[i].revents != 0) answer(waiting[i].fd, word);
        }
    });
    return {};
}

Canary::~Canary()
{
    if (answers_.joinable()) {
        const std::uint64_t one = 1;
        (void)!::write(wake_.get(), &one, sizeof one);
        answers_.join();
    }
    for (const auto& directory : directories_) remove_directory(directory);
}

} // namespace berth::prove
