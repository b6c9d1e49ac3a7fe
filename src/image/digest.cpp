#include "image/digest.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <vector>

#include "base/sha256.hpp"

namespace berth::image {

Result<std::string> sha256_of(int fd, const std::string& what)
{
    Sha256 hash;
    std::vector<char> buffer(1u << 20);
    for (off_t offset = 0;;) {
        const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading {}", what);
        if (n == 0) return hash.hex();
        hash.update({buffer.data(), static_cast<std::size_t>(n)});
        offset += n;
    }
}

} // namespace berth::image
