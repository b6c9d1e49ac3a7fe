// Any bytes as a tar archive: nothing outside the destination changes, nothing crashes, and an archive that
// is refused leaves a destination that can be removed.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/io.hpp"
#include "image/unpack.hpp"
#include "sys/remove_tree.hpp"

namespace {

using namespace berth;

/// The directory around the destination: on tmpfs where there is one, removed at the end.
class Yard {
public:
    Yard()
    {
        path_ = (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/berth-fuzz-XXXXXX");
        if (::mkdtemp(path_.data()) == nullptr) ::abort();
        dir_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!replace_file_at(dir_.get(), "canary", "untouched")) ::abort();
    }
    Yard(const Yard&) = delete;
    Yard& operator=(const Yard&) = delete;
    ~Yard()
    {
        ::unlinkat(dir_.get(), "canary", 0);
        ::rmdir(path_.c_str());
    }
    [[nodiscard]] int dir() const { return dir_.get(); }

    /// Dest and canary, one name each, and the canary's content.
    void check() const
    {
        struct stat above{};
        struct stat canary{};
        if (::fstat(dir(), &above) != 0 || above.st_nlink != 3) ::abort();
        if (::fstatat(dir(), "canary", &canary, AT_SYMLINK_NOFOLLOW) != 0 || canary.st_nlink != 1) ::abort();
        if (read_file_at(dir(), "canary") != "untouched") ::abort();
    }

private:
    std::string path_;
    UniqueFd dir_;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static const Yard yard;
    const UniqueFd tar(::memfd_create("tar", MFD_CLOEXEC));
    if (!write_all(tar.get(), std::string_view(reinterpret_cast<const char*>(data), size))) ::abort();
    ::lseek(tar.get(), 0, SEEK_SET);

    if (::mkdirat(yard.dir(), "dest", 0700) != 0) ::abort();
    {
        const UniqueFd dest(::openat(yard.dir(), "dest", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const image::UnpackOptions limits{
            .max_bytes = 1_MiB,
            .max_entries = 200,
            .ids = ::geteuid() == 0 ? image::Ids::Sandbox : image::Ids::Maker,
        };
        const auto report = image::unpack_tar(tar.get(), dest.get(), limits);
        if (report && report->bytes > limits.max_bytes.count) ::abort();
        if (!report && report.error().code == Code::Internal) ::abort();
        yard.check();
    }
    if (!sys::remove_tree(yard.dir(), "dest")) ::abort();
    return 0;
}
