#include "core/exo_hash.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

namespace berth::exo {

namespace {

/// One round for each word, three at the end, both key words zero.
class SipHash {
public:
    void bytes(std::string_view text)
    {
        for (const char c : text) byte(static_cast<std::uint8_t>(c));
    }
    void byte(std::uint8_t value)
    {
        word_ |= std::uint64_t{value} << (8 * (length_ % 8));
        if (++length_ % 8 != 0) return;
        absorb(word_);
        word_ = 0;
    }
    void number(std::uint64_t value)
    {
        for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
    }
    /// A text is ended by a byte that no UTF-8 has.
    void text(std::string_view value)
    {
        bytes(value);
        byte(0xff);
    }

    [[nodiscard]] std::string finish()
    {
        absorb(word_ | length_ << 56);
        v2_ ^= 0xff;
        for (int i = 0; i < 3; ++i) round();
        return fmt::format("{:016x}", v0_ ^ v1_ ^ v2_ ^ v3_);
    }

private:
    void absorb(std::uint64_t word)
    {
        v3_ ^= word;
        round();
        v0_ ^= word;
    }
    void round()
    {
        v0_ += v1_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v3_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ += v3_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ += v1_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v2_ = std::rotl(v2_, 32);
    }

    std::uint64_t v0_ = 0x736f6d6570736575, v1_ = 0x646f72616e646f6d;
    std::uint64_t v2_ = 0x6c7967656e657261, v3_ = 0x7465646279746573;
    std::uint64_t word_ = 0;
    std::uint64_t length_ = 0;
};

/// The components without their separators, then a word that tells where they were. A single dot after a
/// separator is none; a double one is.
void host_path(SipHash& hash, std::string_view path)
{
    std::uint64_t shape = 0;
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const auto part = path.substr(begin, end - begin);
        if (!part.empty() && (part != "." || begin == 0)) {
            hash.bytes(part);
            shape = std::rotr(shape + part.size(), 2);
        }
        begin = end + 1;
    }
    hash.number(shape);
}

} // namespace

std::string spec_hash(const Spec& spec)
{
    SipHash hash;
    hash.text(spec.image);
    hash.number(spec.mounts.size());
    for (const auto& mount : spec.mounts) {
        host_path(hash, mount.host);
        hash.text(mount.guest);
        hash.number(mount.writable ? 1 : 0);
        hash.byte(mount.internal ? 1 : 0);
    }
    hash.number(spec.file_systems.size());
    for (const auto& volume : spec.file_systems) {
        hash.text(volume.name);
        hash.text(volume.path);
        hash.number(volume.writable ? 1 : 0);
    }
    hash.number(spec.network ? 0 : 1);
    hash.text(spec.workdir);
    return hash.finish();
}

std::string key_hash(Scope scope, const std::string& owner, const std::string& sandbox)
{
    SipHash hash;
    hash.number(scope == Scope::Conversation ? 1 : 0);
    hash.text(owner);
    hash.text(sandbox);
    return hash.finish();
}

} // namespace berth::exo
