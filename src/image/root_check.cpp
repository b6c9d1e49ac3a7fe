#include "image/root_check.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>

#include "base/unique_fd.hpp"

namespace berth::image {

namespace {

using Listing = std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })>;

UniqueFd open_inside(int root, const std::string& path, int flags)
{
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

bool holds_a_program(int root, const std::string& directory)
{
    UniqueFd dir = open_inside(root, directory, O_RDONLY | O_DIRECTORY);
    if (!dir) return false;
    const Listing listing(::fdopendir(dir.get()));
    if (!listing) return false;
    (void)dir.release();
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours alone
    while (const dirent* entry = ::readdir(listing.get())) {
        const UniqueFd file = open_inside(root, directory + "/" + entry->d_name, O_PATH);
        struct stat st{};
        if (file && ::fstat(file.get(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0)
            return true;
    }
    return false;
}

} // namespace

Status check_root(int root, const std::string& what)
{
    if (holds_a_program(root, "usr/bin") || holds_a_program(root, "bin")) return {};
    return fail(Code::Invalid, "{} is not a root file system: neither usr/bin nor bin in it holds a program",
                what);
}

} // namespace berth::image
