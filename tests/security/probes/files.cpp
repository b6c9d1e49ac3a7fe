// Attempts on files: reading and writing what is not shown, set-id bits, nodes, handles, filling up.

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstring>

#include "probe.hpp"

namespace probe {
namespace {

constexpr long kProcMagic = 0x9fa0;
constexpr long kFchmodat2 = 452;

int open_read(const Words& w) { return outcome(::open(w.at(0).c_str(), O_RDONLY | O_NONBLOCK)); }

/// Opens and writes nothing: that it opens is bad enough, and harmless where a wall is off.
int open_write(const Words& w) { return outcome(::open(w.at(0).c_str(), O_WRONLY | O_NONBLOCK)); }

int create(const Words& w)
{
    const int fd = ::open(w.at(0).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
    return fd < 0 ? errno : outcome(::write(fd, "made inside\n", 12));
}

int truncate(const Words& w) { return outcome(::truncate(w.at(0).c_str(), 0)); }
int rename(const Words& w) { return outcome(::rename(w.at(0).c_str(), w.at(1).c_str())); }
int exchange(const Words& w)
{
    return outcome(::renameat2(AT_FDCWD, w.at(0).c_str(), AT_FDCWD, w.at(1).c_str(), RENAME_EXCHANGE));
}
int link(const Words& w) { return outcome(::link(w.at(0).c_str(), w.at(1).c_str())); }
int chmod(const Words& w) { return outcome(::chmod(w.at(0).c_str(), 0777)); }
int chown(const Words& w) { return outcome(::chown(w.at(0).c_str(), 1001, 1001)); }

/// `masked` when a name below /proc leads out of procfs to nothing.
int masked(const Words& w)
{
    const std::string path = "/proc/" + w.at(0);
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) return errno;
    struct statfs fs{};
    if (::statfs(path.c_str(), &fs) != 0) return errno;
    if (fs.f_type == kProcMagic) return say("visible");
    if (S_ISDIR(st.st_mode)) {
        DIR* dir = ::opendir(path.c_str());
        int entries = 0;
        while (dir != nullptr && ::readdir(dir) != nullptr) ++entries;
        return say(entries <= 2 ? "masked" : "visible");
    }
    char byte = 0;
    const int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
    return say(fd < 0 || ::read(fd, &byte, 1) == 0 ? "masked" : "visible");
}

/// Every way to leave a set-id file in a directory; one line each.
int set_id(const Words& w)
{
    const std::string dir = w.at(0);
    const auto path = [&](const char* way) { return dir + "/" + way; };
    const auto plain = [&](const char* way) {
        return ::open(path(way).c_str(), O_RDWR | O_CREAT | O_TRUNC, 0755);
    };
    const auto tell = [](const char* way, long result) {
        say(std::string(way) + " " + (result < 0 ? ::strerrorname_np(errno) : "ok"));
    };
    int fd = plain("chmod");
    tell("chmod", ::syscall(SYS_chmod, path("chmod").c_str(), 04755));
    fd = plain("fchmod");
    tell("fchmod", ::syscall(SYS_fchmod, fd, 06755));
    plain("fchmodat");
    tell("fchmodat", ::syscall(SYS_fchmodat, AT_FDCWD, path("fchmodat").c_str(), 02755));
    plain("fchmodat2");
    tell("fchmodat2", ::syscall(kFchmodat2, AT_FDCWD, path("fchmodat2").c_str(), 04755, 0));
    tell("creat", ::syscall(SYS_creat, path("creat").c_str(), 04755));
    tell("open", ::syscall(SYS_open, path("open").c_str(), O_CREAT | O_WRONLY, 04755));
    tell("openat", ::syscall(SYS_openat, AT_FDCWD, path("openat").c_str(), O_CREAT | O_WRONLY, 02755));
    open_how how{.flags = O_CREAT | O_WRONLY, .mode = 04755, .resolve = 0};
    tell("openat2", ::syscall(SYS_openat2, AT_FDCWD, path("openat2").c_str(), &how, sizeof how));
    tell("tmpfile", ::syscall(SYS_openat, AT_FDCWD, dir.c_str(), O_TMPFILE | O_WRONLY, 04755));
    tell("mknod", ::syscall(SYS_mknod, path("mknod").c_str(), S_IFREG | 04755, 0));
    tell("mknodat", ::syscall(SYS_mknodat, AT_FDCWD, path("mknodat").c_str(), S_IFREG | 02755, 0));
    tell("mkdir", ::syscall(SYS_mkdir, path("mkdir").c_str(), 02755));
    tell("mkdirat", ::syscall(SYS_mkdirat, AT_FDCWD, path("mkdirat").c_str(), 02755));
    // The kernel looks at the low half of the register only.
    plain("high");
    tell("chmod-high", ::syscall(SYS_chmod, path("high").c_str(), 0x1'0000'0000ull | 04755));
    return kSaid;
}

int make_node(const Words& w)
{
    const bool block = w.at(1) == "block";
    return outcome(
        ::mknod(w.at(0).c_str(), (block ? S_IFBLK : S_IFCHR) | 0666, block ? makedev(8, 0) : makedev(1, 1)));
}

int file_capability(const Words& w)
{
    const vfs_cap_data data{
        .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
        .data = {{.permitted = ~0u, .inheritable = 0}, {.permitted = ~0u, .inheritable = 0}}};
    return outcome(::setxattr(w.at(0).c_str(), "security.capability", &data, sizeof data, 0));
}

int name_to_handle(const Words& w)
{
    alignas(file_handle) char buffer[sizeof(file_handle) + MAX_HANDLE_SZ];
    auto* handle = reinterpret_cast<file_handle*>(buffer);
    handle->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    return outcome(::name_to_handle_at(AT_FDCWD, w.at(0).c_str(), handle, &mount, 0));
}

/// The root directory of an ext4 or xfs by its well-known number, through any file that lies on it.
int open_by_handle(const Words& w)
{
    const int mount = ::open(w.at(0).c_str(), O_RDONLY);
    if (mount < 0) return errno;
    alignas(file_handle) char buffer[sizeof(file_handle) + 8] = {};
    auto* handle = reinterpret_cast<file_handle*>(buffer);
    handle->handle_bytes = 8;
    handle->handle_type = 1;
    const unsigned inode = 2;
    std::memcpy(handle->f_handle, &inode, sizeof inode);
    return outcome(::open_by_handle_at(mount, handle, O_RDONLY));
}

/// How many descriptors beyond the standard three this process was born with.
int descriptors(const Words&)
{
    int count = 0;
    for (int fd = 3; fd < 20000; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
    return say(std::to_string(count));
}

int read_descriptor(const Words& w)
{
    char text[256];
    const ssize_t n = ::pread(std::stoi(w.at(0)), text, sizeof text, 0);
    return n < 0 ? errno : say(std::string(text, static_cast<std::size_t>(n)));
}

/// Writes zeros until it cannot; at most the given number of MiB.
int fill(const Words& w)
{
    const int fd = ::open(w.at(0).c_str(), O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return errno;
    static char block[1 << 20];
    std::memset(block, 1, sizeof block);
    for (int i = 0; i < std::stoi(w.at(1)); ++i)
        if (::write(fd, block, sizeof block) < 0) return errno;
    return 0;
}

/// Makes empty files until it cannot; at most the given number.
int inodes(const Words& w)
{
    for (int i = 0; i < std::stoi(w.at(1)); ++i) {
        const int fd = ::open((w.at(0) + "/" + std::to_string(i)).c_str(), O_WRONLY | O_CREAT, 0600);
        if (fd < 0) return errno;
        ::close(fd);
    }
    return 0;
}

int many_descriptors(const Words& w)
{
    for (int i = 0; i < std::stoi(w.at(0)); ++i)
        if (::dup(0) < 0) return errno;
    return 0;
}

constexpr Entry kEntries[] = {
    {"open-read", open_read},
    {"open-write", open_write},
    {"create", create},
    {"truncate", truncate},
    {"rename", rename},
    {"exchange", exchange},
    {"link", link},
    {"chmod", chmod},
    {"chown", chown},
    {"masked", masked},
    {"set-id", set_id},
    {"make-node", make_node},
    {"file-capability", file_capability},
    {"name-to-handle", name_to_handle},
    {"open-by-handle", open_by_handle},
    {"descriptors", descriptors},
    {"read-descriptor", read_descriptor},
    {"fill", fill},
    {"inodes", inodes},
    {"many-descriptors", many_descriptors},
};

} // namespace

std::span<const Entry> file_probes() { return kEntries; }

} // namespace probe
