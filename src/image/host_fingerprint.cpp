#include "image/host_fingerprint.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include <fmt/format.h>

namespace berth::image {

namespace {

/// Raised when the layout or the content rules of template `host` change.
constexpr std::uint64_t kFormat = 1;

constexpr std::array kWatched = {
    // What package managers touch last: dpkg, rpm (old and new place), apk, pacman.
    "var/lib/dpkg/status",
    "var/lib/rpm/rpmdb.sqlite",
    "usr/lib/sysimage/rpm/rpmdb.sqlite",
    "lib/apk/db/installed",
    "var/lib/pacman/local",
    // Directories that change with what an administrator adds by hand.
    "usr",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib64",
    "usr/lib32",
    "usr/libexec",
    "usr/include",
    "usr/share",
    "usr/src",
    "usr/local",
    "usr/local/bin",
    "usr/local/sbin",
    "usr/local/lib",
    "usr/local/etc",
    "usr/local/share",
    // What is copied from /etc and changes without a package.
    "etc/ld.so.cache",
    "etc/alternatives",
    "etc/ssl/certs",
    "etc/localtime",
    // The links of a merged /usr.
    "bin",
    "lib",
};

/// FNV-1a: told apart are states of one machine, not the forgeries of an enemy, who would need to
/// write to /usr first.
class Fnv {
public:
    void add(std::uint64_t value)
    {
        for (int shift = 0; shift < 64; shift += 8) {
            hash_ ^= (value >> shift) & 0xff;
            hash_ *= 0x100000001b3;
        }
    }
    [[nodiscard]] std::uint64_t value() const { return hash_; }

private:
    std::uint64_t hash_ = 0xcbf29ce484222325;
};

} // namespace

std::string host_fingerprint(int host_root)
{
    Fnv hash;
    hash.add(kFormat);
    hash.add(::geteuid());
    for (const char* path : kWatched) {
        struct stat st{};
        if (::fstatat(host_root, path, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            hash.add(0);
            continue;
        }
        // The change time, not the modification time: it also tells of chmod and cannot be set back.
        hash.add(st.st_ino);
        hash.add(static_cast<std::uint64_t>(st.st_ctim.tv_sec));
        hash.add(static_cast<std::uint64_t>(st.st_ctim.tv_nsec));
        hash.add(S_ISREG(st.st_mode) ? static_cast<std::uint64_t>(st.st_size) : 1);
    }
    return fmt::format("{:016x}", hash.value());
}

} // namespace berth::image
