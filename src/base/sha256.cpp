// OpenSSL's plain functions, which it calls deprecated in favour of EVP: linking EVP brings in every
// algorithm, 4.7 MB and 17 000 relocations, and each start of the program pays 200 µs for them (measured).
#define OPENSSL_SUPPRESS_DEPRECATED

#include "base/sha256.hpp"

#include <openssl/sha.h>

#include <new>

#include "base/encoding.hpp"

namespace berth {

namespace {

SHA256_CTX* context_in(std::array<std::byte, 112>& room)
{
    return reinterpret_cast<SHA256_CTX*>(room.data());
}

} // namespace

Sha256::Sha256() : context_{}
{
    static_assert(sizeof(SHA256_CTX) <= sizeof context_);
    SHA256_Init(new (context_.data()) SHA256_CTX);
}

void Sha256::update(std::string_view bytes)
{
    SHA256_Update(context_in(context_), bytes.data(), bytes.size());
}

std::string Sha256::hex()
{
    std::string digest(SHA256_DIGEST_LENGTH, '\0');
    SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), context_in(context_));
    return hex_encode(digest);
}

std::string sha256_hex(std::string_view bytes)
{
    Sha256 hash;
    hash.update(bytes);
    return hash.hex();
}

} // namespace berth
