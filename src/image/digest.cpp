// OpenSSL's plain functions, which it calls deprecated in favour of EVP: linking EVP brings in every
// algorithm, 4.7 MB and 17 000 relocations, and each start of the program pays 200 µs for them (measured).
#define OPENSSL_SUPPRESS_DEPRECATED

#include "image/digest.hpp"

#include <openssl/sha.h>
#include <sys/types.h>
#include <unistd.h>

#include <vector>

namespace berth::image {

Result<std::string> sha256_of(int fd, const std::string& what)
{
    SHA256_CTX context;
    SHA256_Init(&context);
    std::vector<unsigned char> buffer(1u << 20);
    for (off_t offset = 0;;) {
        const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading {}", what);
        if (n == 0) break;
        SHA256_Update(&context, buffer.data(), static_cast<std::size_t>(n));
        offset += n;
    }
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &context);
    std::string text;
    for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
    return text;
}

} // namespace berth::image
