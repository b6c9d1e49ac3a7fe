#include "distribution/reference.hpp"

#include <algorithm>

#include "base/strings.hpp"
#include "image/oci_document.hpp"

namespace berth::distribution {

namespace {

constexpr std::string_view kUsual = "docker.io";
constexpr std::size_t kLongest = 255;

bool only(std::string_view text, std::string_view more)
{
    return std::ranges::all_of(text, [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || more.find(c) != std::string_view::npos;
    });
}

constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

bool is_repository(std::string_view text)
{
    if (text.empty() || text.size() > kLongest) return false;
    return std::ranges::all_of(split(text, '/'), [](const std::string& part) {
        return !part.empty() && part.find("..") == std::string::npos && only(part, "._-") &&
               only(part.substr(0, 1), "") && only(part.substr(part.size() - 1), "");
    });
}

/// The first part of a name is a machine's when it looks like one.
bool is_host(std::string_view text)
{
    return text == "localhost" || text.find('.') != std::string_view::npos ||
           text.find(':') != std::string_view::npos;
}

} // namespace

std::string Reference::text() const
{
    std::string out = fmt::format("{}/{}", registry, repository);
    if (!tag.empty()) out += ":" + tag;
    if (!digest.empty()) out += "@sha256:" + digest;
    return out;
}

bool is_loopback(std::string_view registry) noexcept
{
    const auto host = registry.starts_with('[') ? registry.substr(0, registry.find(']') + 1)
                                                : registry.substr(0, registry.find(':'));
    return host == "localhost" || host.starts_with("127.") || host == "[::1]";
}

Result<Reference> parse_reference(std::string_view text)
{
    const auto bad = [&](std::string_view why) {
        return fail(Code::Invalid, "'{}' is no name of an image: {}", printable(text, 120), why);
    };
    Reference out;
    std::string_view rest = text;
    if (const auto at = rest.find('@'); at != std::string_view::npos) {
        auto digest = image::oci::parse_digest(rest.substr(at + 1));
        if (!digest) return bad(digest.error().message);
        out.digest = *std::move(digest);
        rest = rest.substr(0, at);
    }
    const auto slash = rest.find('/');
    if (slash != std::string_view::npos && is_host(rest.substr(0, slash))) {
        out.registry = rest.substr(0, slash);
        rest = rest.substr(slash + 1);
        if (!only(out.registry, fmt::format("{}.-:[]", kUpper)) || out.registry.size() > kLongest)
            return bad("its registry has no name of a machine");
        const auto port = out.registry.rfind(':');
        if (port != std::string::npos && out.registry.find(']', port) == std::string::npos &&
            !parse_int(out.registry.substr(port + 1), 1, 65535, "port"))
            return bad("its registry has no port of a machine");
    } else {
        out.registry = kUsual;
    }
    if (const auto colon = rest.rfind(':'); colon != std::string_view::npos) {
        out.tag = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (out.tag.empty() || out.tag.size() > 128 || !only(out.tag, fmt::format("{}._-", kUpper)))
            return bad("letters, digits, '.', '_' and '-' make a tag");
    }
    if (out.tag.empty() && out.digest.empty()) out.tag = "latest";
    if (out.registry == "index.docker.io" || out.registry == "registry-1.docker.io") out.registry = kUsual;
    out.repository = rest;
    if (out.registry == kUsual && rest.find('/') == std::string_view::npos)
        out.repository = fmt::format("library/{}", rest);
    if (!is_repository(out.repository)) return bad("lower-case letters, digits and '/', '.', '_', '-'");
    return out;
}

} // namespace berth::distribution
