// Any bytes as an archive for a sandbox: what is accepted keeps every rule, is unpacked below the
// destination and nowhere else, and can be packed again.

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "image/archive_writer.hpp"
#include "image/tree_reader.hpp"
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
    }
    Yard(const Yard&) = delete;
    Yard& operator=(const Yard&) = delete;
    ~Yard() { ::rmdir(path_.c_str()); }
    [[nodiscard]] int dir() const { return dir_.get(); }

private:
    std::string path_;
    UniqueFd dir_;
};

void check_names(const std::map<std::string, image::ArchiveMember::Kind>& members)
{
    for (const auto& [path, kind] : members) {
        if (path.empty() || path.front() == '/' || path.back() == '/') ::abort();
        for (const auto& part : split(path, '/'))
            if (part.empty() || part == "." || part == ".." || part.size() > 255) ::abort();
    }
}

void pack_again(int dest)
{
    UniqueFd start(::openat(dest, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    auto reader = image::TreeReader::open(std::move(start), "x", {}, {});
    if (!reader) ::abort();
    const UniqueFd tar(::memfd_create("again", MFD_CLOEXEC));
    for (std::string piece;; piece.clear()) {
        const auto more = reader->read(piece, 1 << 16);
        if (!more || !write_all(tar.get(), piece)) ::abort();
        if (!*more) break;
    }
    ::lseek(tar.get(), 0, SEEK_SET);
    if (!image::check_archive(tar.get(), {})) ::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    static const Yard yard;
    const UniqueFd tar(::memfd_create("tar", MFD_CLOEXEC));
    if (!write_all(tar.get(), std::string_view(reinterpret_cast<const char*>(data), size))) ::abort();
    ::lseek(tar.get(), 0, SEEK_SET);
    const ArchiveLimits limits{.input = 1_MiB, .extracted = 1_MiB, .members = 200};
    auto members = image::check_archive(tar.get(), limits);
    if (!members) {
        if (members.error().code == Code::Internal) ::abort();
        return 0;
    }
    check_names(*members);
    ::lseek(tar.get(), 0, SEEK_SET);
    if (::mkdirat(yard.dir(), "dest", 0700) != 0) ::abort();
    {
        const UniqueFd dest(::openat(yard.dir(), "dest", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        image::ArchiveWriter writer(dest.get(), *std::move(members));
        if (!writer.check()) ::abort(); // the destination is empty
        const auto written = writer.write(tar.get(), limits);
        if (written) pack_again(dest.get());
        struct stat above{};
        if (::fstat(yard.dir(), &above) != 0 || above.st_nlink != 3) ::abort();
    }
    if (!sys::remove_tree(yard.dir(), "dest")) ::abort();
    return 0;
}
