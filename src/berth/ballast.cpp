#include "berth/ballast.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace berth {

namespace {

constexpr unsigned long long kSize = 4ull << 20;
constexpr unsigned long long kLittle = 1ull << 20;
constexpr unsigned long long kPlenty = 4 * kSize;

} // namespace

unsigned long long free_bytes(const std::string& directory)
{
    struct statvfs st{};
    if (::statvfs(directory.c_str(), &st) != 0) return 0;
    return (::geteuid() == 0 ? st.f_bfree : st.f_bavail) * static_cast<unsigned long long>(st.f_frsize);
}

bool Ballast::short_of_room() const { return free_bytes(directory_) < kLittle; }

void Ballast::release() const { ::unlink(file_.c_str()); }

void Ballast::refill() const
{
    if (::access(file_.c_str(), F_OK) == 0 || free_bytes(directory_) < kPlenty) return;
    const UniqueFd file(::open(file_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return;
    // A disk that cannot promise room (or has lost it meanwhile) has no ballast.
    if (::fallocate(file.get(), 0, 0, static_cast<off_t>(kSize)) != 0) ::unlink(file_.c_str());
}

} // namespace berth
