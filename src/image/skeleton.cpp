#include "image/skeleton.hpp"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <array>

#include "base/io.hpp"
#include "image/accounts.hpp"
#include "image/etc_copy.hpp"
#include "image/host_names.hpp"
#include "image/layer.hpp"

namespace berth::image {

namespace {

struct Directory {
    const char* path;
    mode_t mode;
};

constexpr std::array kDirectories = std::to_array<Directory>({
    {"dev", 0755},       {"etc", 0755},       {"home", 0755},      {"media", 0755},     {"mnt", 0755},
    {"opt", 0755},       {"proc", 0555},      {"root", 0700},      {"run", 0755},       {"run/lock", 01777},
    {"srv", 0755},       {"sys", 0555},       {"tmp", 01777},      {"usr", 0755},       {"var", 0755},
    {"var/cache", 0755}, {"var/lib", 0755},   {"var/local", 0755}, {"var/log", 0755},   {"var/mail", 0755},
    {"var/opt", 0755},   {"var/spool", 0755}, {"var/tmp", 01777},  {"home/user", 0755},
});

struct Device {
    const char* path;
    unsigned major;
    unsigned minor;
};

constexpr std::array kDevices = std::to_array<Device>({
    {"dev/null", 1, 3},
    {"dev/zero", 1, 5},
    {"dev/full", 1, 7},
    {"dev/random", 1, 8},
    {"dev/urandom", 1, 9},
    {"dev/tty", 5, 0},
});

constexpr std::string_view kProfile = R"(# Read by login shells.
if [ -n "$BASH_VERSION" ] && [ -f "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
for dir in "$HOME/.local/bin" "$HOME/bin"; do
    if [ -d "$dir" ]; then PATH="$dir:$PATH"; fi
done
unset dir
)";

constexpr std::string_view kBashrc = R"(# Read by interactive bash.
case $- in *i*) ;; *) return ;; esac
HISTCONTROL=ignoreboth
shopt -s checkwinsize
PS1='\u@\h:\w\$ '
alias ls='ls --color=auto'
)";

/// `/bin` and friends as the host has them, but relative, so that they hold before any root switch.
Status copy_usr_links(const Layer& layer, int host_root)
{
    for (const std::string name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
        char buffer[PATH_MAX];
        const ssize_t length = ::readlinkat(host_root, name.c_str(), buffer, sizeof buffer);
        if (length < 0 && errno == ENOENT && name != "bin" && name != "lib") continue;
        if (length < 0 && errno != EINVAL) return fail_errno("reading the host's link /{}", name);

        std::string_view target(buffer, length < 0 ? 0 : static_cast<std::size_t>(length));
        while (target.starts_with('/')) target.remove_prefix(1);
        if (!target.starts_with("usr/") || target.find("..") != std::string_view::npos)
            return fail(
                Code::Unsupported,
                "template 'host' needs a merged /usr, and this machine's /{} is not a link into /usr; "
                "name another template (--template DIRECTORY or TAR), or merge it (Debian: apt-get "
                "install usrmerge)",
                name);
        BERTH_CHECK(layer.link(name, std::string(target)));
    }
    return {};
}

/// False when this maker may not make device nodes: an ordinary user, or root in a container.
Result<bool> make_devices(const Layer& layer)
{
    for (const auto& device : kDevices) {
        if (::mknodat(layer.dir(), device.path, S_IFCHR | 0600, makedev(device.major, device.minor)) != 0) {
            if (errno == EPERM && &device == kDevices.data()) return false;
            return fail_errno("making {}", device.path);
        }
        BERTH_CHECK(layer.mode(device.path, 0666));
    }
    BERTH_CHECK(layer.directory("dev/pts", 0755));
    BERTH_CHECK(layer.directory("dev/shm", 01777));
    BERTH_CHECK(layer.link("dev/ptmx", "pts/ptmx"));
    BERTH_CHECK(layer.link("dev/fd", "/proc/self/fd"));
    BERTH_CHECK(layer.link("dev/stdin", "/proc/self/fd/0"));
    BERTH_CHECK(layer.link("dev/stdout", "/proc/self/fd/1"));
    BERTH_CHECK(layer.link("dev/stderr", "/proc/self/fd/2"));
    return true;
}

Status make_etc(const Layer& layer, int host_root, const Progress& progress)
{
    UniqueFd source(::openat(host_root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!source) return fail_errno("opening the host's /etc");
    UniqueFd target(::openat(layer.dir(), "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target) return fail_errno("opening etc of the skeleton");
    BERTH_CHECK(copy_etc(source.get(), target.get(), progress));

    struct stat st{};
    const bool bash = ::fstatat(host_root, "usr/bin/bash", &st, 0) == 0;
    BERTH_CHECK(layer.file("etc/passwd", passwd_file(bash ? "/bin/bash" : "/bin/sh"), 0644));
    BERTH_CHECK(layer.file("etc/group", group_file(), 0644));
    BERTH_CHECK(layer.file("etc/nsswitch.conf", nsswitch_file(), 0644));
    BERTH_CHECK(layer.file(kHostNamePath, host_name_file("sandbox"), 0644));
    BERTH_CHECK(layer.file(kHostsPath, hosts_file("sandbox"), 0644));
    BERTH_CHECK(layer.file("etc/resolv.conf", "", 0644));
    // Every sandbox gets its own when it is made.
    BERTH_CHECK(layer.file("etc/machine-id", "", 0444));
    return layer.link("etc/mtab", "../proc/self/mounts");
}

Status make_home(const Layer& layer, const std::string& home)
{
    BERTH_CHECK(layer.file(home + "/.profile", kProfile, 0644));
    return layer.file(home + "/.bashrc", kBashrc, 0644);
}

} // namespace

Result<bool> make_skeleton(int layer_dir, int host_root, Ids ids, const Progress& progress)
{
    const Layer layer(layer_dir);
    BERTH_CHECK(copy_usr_links(layer, host_root));
    for (const auto& directory : kDirectories) BERTH_CHECK(layer.directory(directory.path, directory.mode));
    BERTH_CHECK(layer.link("var/run", "/run"));
    BERTH_CHECK(layer.link("var/lock", "/run/lock"));
    BERTH_CHECK(make_etc(layer, host_root, progress));
    BERTH_CHECK(make_home(layer, "root"));
    BERTH_CHECK(make_home(layer, "home/user"));
    if (ids == Ids::Maker) return false;

    for (const char* path : {"home/user", "home/user/.profile", "home/user/.bashrc"})
        BERTH_CHECK(layer.owner(path, kUserId, kUserId));
    return make_devices(layer);
}

} // namespace berth::image
