// A URI decides which file is touched, and it comes from a stranger: one spelling, one meaning. A path is
// decoded once, "." and ".." are resolved before anybody compares it with a rule, and NUL is refused.
#include "protocol/codex/path_uri.hpp"

#include <cctype>
#include <vector>

#include "base/encoding.hpp"
#include "base/strings.hpp"

namespace berth::codex {

namespace {

constexpr std::string_view kScheme = "file:";
constexpr std::string_view kOpaque = "/%00/bad/path/";
constexpr std::size_t kMaxPath = 4096;

std::unexpected<Error> bad(std::string_view uri, std::string_view why)
{
    return fail(Code::Invalid, "invalid URI '{}': {}", printable(uri, 120), why);
}

bool same_scheme(std::string_view uri)
{
    if (uri.size() < kScheme.size()) return false;
    for (std::size_t i = 0; i < kScheme.size(); ++i)
        if (std::tolower(static_cast<unsigned char>(uri[i])) != kScheme[i]) return false;
    return true;
}

/// "." and ".." resolved as a URL does: what would climb above the root stays there.
std::string resolve(std::string_view path)
{
    std::vector<std::string_view> kept;
    while (!path.empty()) {
        const auto slash = std::min(path.find('/'), path.size());
        const auto part = path.substr(0, slash);
        path.remove_prefix(std::min(slash + 1, path.size()));
        if (part.empty() || part == ".") continue;
        if (part != "..")
            kept.push_back(part);
        else if (!kept.empty())
            kept.pop_back();
    }
    std::string out;
    for (const auto part : kept) (out += '/') += part;
    return out.empty() ? "/" : out;
}

bool drive_letter(std::string_view path)
{
    return path.size() >= 3 && std::isalpha(static_cast<unsigned char>(path[1])) != 0 &&
           (path[2] == ':' || path[2] == '|') && (path.size() == 3 || path[3] == '/');
}

bool plain(char c)
{
    const auto u = static_cast<unsigned char>(c);
    return u < 0x80 &&
           (std::isalnum(u) != 0 || std::string_view("-._~/!$&'()*+,;=:@").find(c) != std::string_view::npos);
}

std::string opaque(std::string_view path)
{
    std::string out = base64_encode(path);
    for (char& c : out) c = c == '+' ? '-' : c == '/' ? '_' : c;
    while (out.ends_with('=')) out.pop_back();
    return out;
}

/// A path that has no URI of its own is carried as base64 of its bytes.
Result<std::string> read_opaque(std::string_view uri, std::string_view text)
{
    if (text.size() > kMaxPath * 2) return bad(uri, "it is too long");
    auto bytes = base64_decode(text);
    if (bytes && bytes->size() > kMaxPath) return bad(uri, "it is too long");
    if (!bytes || bytes->empty() || bytes->front() != '/' || bytes->find('\0') != std::string::npos)
        return bad(uri, "not a path");
    if (opaque(*bytes) != text) return bad(uri, "not the one spelling of its path");
    return resolve(*bytes);
}

} // namespace

Result<std::string> read_path(std::string_view uri)
{
    if (uri.find('\0') != std::string_view::npos) return bad(uri, "it contains NUL");
    if (!same_scheme(uri))
        return bad(uri, uri.find(':') == std::string_view::npos ? "relative URL without a base"
                                                                : "only file: is a path");
    std::string_view rest = uri.substr(kScheme.size());
    if (rest.find_first_of("?#") != std::string_view::npos)
        return bad(uri, "a path has no query or fragment");
    if (rest.starts_with("//")) {
        rest.remove_prefix(2);
        const auto slash = std::min(rest.find('/'), rest.size());
        const auto host = rest.substr(0, slash);
        rest.remove_prefix(slash);
        if (host.find_first_of("@:") != std::string_view::npos)
            return bad(uri, "a path has no credentials and no port");
        if (!host.empty() && host != "localhost")
            return fail(Code::Unsupported, "'{}' is invalid on 'linux': it names a host",
                        printable(uri, 120));
    }
    if (!rest.starts_with('/')) return bad(uri, "it is not absolute");
    if (rest.starts_with(kOpaque)) return read_opaque(uri, rest.substr(kOpaque.size()));
    const auto decoded = percent_decode(rest);
    if (!decoded) return bad(uri, "a percent sign without two digits");
    if (decoded->find('\0') != std::string::npos) return bad(uri, "it contains NUL");
    if (drive_letter(*decoded))
        return fail(Code::Unsupported, "'{}' is invalid on 'linux': it names a drive", printable(uri, 120));
    if (decoded->size() > kMaxPath) return bad(uri, "it is too long");
    return resolve(*decoded);
}

std::string path_uri(std::string_view path)
{
    std::string out = "file://";
    // Spelled out it would name a drive of another platform.
    if (drive_letter(path)) return out + std::string(kOpaque) + opaque(path);
    for (const char c : path) {
        if (plain(c))
            out += c;
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

} // namespace berth::codex
