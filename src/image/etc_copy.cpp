// What is copied here is shown to every sandbox, and the maker may be root: a file is taken only when
// its name is on the list and every user of the machine could read it anyway. Settings that commonly
// hold a password or a token are not on the list: gitconfig, npmrc, pip.conf, wgetrc, environment,
// profile.d, apt.

#include "image/etc_copy.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "base/bytes.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::image {

namespace {

/// fnmatch patterns over the names in /etc; with a slash, one exact path.
constexpr std::array kAllowed = std::to_array<const char*>({
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "dpkg/origins",
    "ethertypes",
    "fonts",
    "fpc*.cfg",
    "gai.conf",
    "host.conf",
    "inputrc",
    "issue",
    "java-*",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "login.defs",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "mime.types",
    "mono",
    "networks",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "profile",
    "protocols",
    "python2*",
    "python3*",
    "redhat-release",
    "rpc",
    "services",
    "sgml",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "texmf",
    "timezone",
    "vim",
    "xdg/user-dirs.defaults",
    "xml",
});

constexpr Bytes kLargestFile = 16_MiB;
constexpr Bytes kLargestCopy = 128_MiB;
constexpr std::size_t kMostEntries = 50'000;
constexpr int kDeepest = 24;

using Listing = std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })>;

Result<std::vector<std::string>> names_in(int dir, const std::string& shown)
{
    UniqueFd own(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!own) return fail_errno("opening {}", shown);
    const Listing listing(::fdopendir(own.get()));
    if (!listing) return fail_errno("reading {}", shown);
    (void)own.release();
    std::vector<std::string> names;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
}

class Copier {
public:
    explicit Copier(const Progress& progress) : progress_(progress) {}

    /// One entry of `source` under the same name in `target`; what others may not read is left out.
    Status entry(int source, int target, const std::string& name, const std::string& shown, int depth)
    {
        struct stat st{};
        if (::fstatat(source, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return {};
        if (S_ISLNK(st.st_mode)) return link(source, target, name, shown);
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) return {};

        // Judged again on the open file: the name may mean something else by now.
        UniqueFd fd(
            ::openat(source, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!fd) return {};
        if (::fstat(fd.get(), &st) != 0) return fail_errno("looking at {}", shown);
        BERTH_CHECK(count(shown));
        if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0)
            return file(fd.get(), target, name, shown, st);
        if (S_ISDIR(st.st_mode) && (st.st_mode & 05) == 05)
            return directory(fd.get(), target, name, shown, depth);
        return {};
    }

private:
    Status count(const std::string& shown)
    {
        if (++entries_ > kMostEntries)
            return fail(Code::Exhausted, "the listed part of /etc has more than {} entries (at {})",
                        kMostEntries, shown);
        return {};
    }

    Status link(int source, int target, const std::string& name, const std::string& shown)
    {
        BERTH_CHECK(count(shown));
        char buffer[PATH_MAX];
        const ssize_t length = ::readlinkat(source, name.c_str(), buffer, sizeof buffer - 1);
        if (length < 0) return {};
        buffer[length] = '\0';
        if (::symlinkat(buffer, target, name.c_str()) != 0) return fail_errno("copying link {}", shown);
        return {};
    }

    Status directory(int source, int target, const std::string& name, const std::string& shown, int depth)
    {
        if (depth > kDeepest)
            return fail(Code::Exhausted, "{} lies more than {} directories deep", shown, kDeepest);
        if (::mkdirat(target, name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail_errno("creating directory {}", shown);
        UniqueFd made(::openat(target, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!made) return fail_errno("opening the copy of {}", shown);
        if (::fchmod(made.get(), 0755) != 0) return fail_errno("setting the mode of {}", shown);
        BERTH_TRY(const auto names, names_in(source, shown));
        for (const auto& inner : names)
            BERTH_CHECK(entry(source, made.get(), inner, fmt::format("{}/{}", shown, inner), depth + 1));
        return {};
    }

    Status file(int source, int target, const std::string& name, const std::string& shown,
                const struct stat& st)
    {
        const auto size = static_cast<std::uint64_t>(st.st_size);
        if (size > kLargestFile.count) {
            if (progress_)
                progress_(fmt::format("{} is left out: larger than {}", shown, show(kLargestFile)));
            return {};
        }
        bytes_ += size;
        if (bytes_ > kLargestCopy.count)
            return fail(Code::Exhausted, "the listed part of /etc is larger than {} (at {})",
                        show(kLargestCopy), shown);
        UniqueFd made(
            ::openat(target, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!made) return fail_errno("creating the copy of {}", shown);
        for (std::uint64_t left = size; left > 0;) {
            const ssize_t n = ::sendfile(made.get(), source, nullptr, left);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("copying {}", shown);
            if (n == 0) break;
            left -= static_cast<std::uint64_t>(n);
        }
        const timespec times[2] = {st.st_mtim, st.st_mtim};
        if (::fchmod(made.get(), st.st_mode & 0755) != 0 || ::futimens(made.get(), times) != 0)
            return fail_errno("setting the mode of {}", shown);
        return {};
    }

    const Progress& progress_;
    std::size_t entries_ = 0;
    std::uint64_t bytes_ = 0;
};

/// "ssl/certs": walks down while everybody may, making the same directories in the copy.
Status copy_path(Copier& copier, int source, int target, std::string_view path)
{
    UniqueFd from;
    UniqueFd to;
    std::string shown = "/etc";
    for (auto slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/')) {
        const std::string name(path.substr(0, slash));
        path.remove_prefix(slash + 1);
        shown += "/" + name;
        UniqueFd next(::openat(source, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat st{};
        if (!next || ::fstat(next.get(), &st) != 0 || (st.st_mode & S_IXOTH) == 0) return {};
        if (::mkdirat(target, name.c_str(), 0700) != 0 && errno != EEXIST)
            return fail_errno("creating directory {}", shown);
        UniqueFd made(::openat(target, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!made || ::fchmod(made.get(), 0755) != 0) return fail_errno("opening the copy of {}", shown);
        source = next.get();
        target = made.get();
        from = std::move(next);
        to = std::move(made);
    }
    const std::string name(path);
    return copier.entry(source, target, name, shown + "/" + name, 0);
}

} // namespace

Status copy_etc(int source, int target, const Progress& progress)
{
    BERTH_TRY(const auto names, names_in(source, "/etc"));
    Copier copier(progress);
    for (const char* allowed : kAllowed) {
        const std::string_view pattern = allowed;
        if (pattern.find('/') != std::string_view::npos) {
            BERTH_CHECK(copy_path(copier, source, target, pattern));
            continue;
        }
        for (const auto& name : names)
            if (::fnmatch(allowed, name.c_str(), 0) == 0)
                BERTH_CHECK(copier.entry(source, target, name, "/etc/" + name, 0));
    }
    return {};
}

} // namespace berth::image
