#include "backend/exec_server/config.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "policy/bind.hpp"

namespace berth::exec_server {

namespace {

constexpr const char* kUrl = "BERTH_EXEC_SERVER_URL";
constexpr const char* kToken = "BERTH_EXEC_SERVER_TOKEN";
constexpr const char* kTokenFile = "BERTH_EXEC_SERVER_TOKEN_FILE";
constexpr const char* kRoot = "BERTH_EXEC_SERVER_ROOT";
constexpr std::size_t kMostTarget = 4096;

std::string value(const std::map<std::string, std::string>& all, const char* name)
{
    const auto at = all.find(name);
    return at == all.end() ? std::string{} : at->second;
}

bool visible(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// "ws://host:4567/path?key=…"
Status read_url(std::string_view url, Config& out)
{
    const auto bad = [] {
        return fail(Code::Invalid, "{} is no address like ws://127.0.0.1:4567 or wss://host/codex", kUrl);
    };
    if (!visible(url) || url.size() > kMostTarget || url.find('#') != std::string_view::npos) return bad();
    const bool tls = url.starts_with("wss://");
    if (!tls && !url.starts_with("ws://")) return bad();
    url.remove_prefix(tls ? 6 : 5);
    const auto query = url.find('?');
    const auto origin =
        http_client::parse_url((tls ? "https://" : "http://") + std::string(url.substr(0, query)));
    if (!origin) return bad();
    out.place = origin->place;
    out.target = origin->path.empty() ? "/" : origin->path;
    if (query != std::string_view::npos) out.target += url.substr(query);
    return {};
}

} // namespace

std::map<std::string, std::string> config_environment()
{
    std::map<std::string, std::string> out;
    for (const char* name : {kUrl, kToken, kTokenFile, kRoot})
        if (const char* text = std::getenv(name)) out[name] = text; // NOLINT(concurrency-mt-unsafe)
    return out;
}

Result<Config> read_config(const std::map<std::string, std::string>& environment)
{
    Config out;
    const auto url = value(environment, kUrl);
    if (url.empty())
        return fail(Code::Invalid,
                    "backend exec-server needs an address: set {} (berth exec-server prints one)", kUrl);
    BERTH_CHECK(read_url(url, out));
    out.token = value(environment, kToken);
    if (const auto file = value(environment, kTokenFile); out.token.empty() && !file.empty()) {
        BERTH_TRY(out.token, read_file(file, 64_KiB));
        while (!out.token.empty() && static_cast<unsigned char>(out.token.back()) <= ' ')
            out.token.pop_back();
        if (out.token.empty()) return fail(Code::Invalid, "{} names an empty file", kTokenFile);
    }
    if (out.token.size() > 4096 || !visible(out.token)) return fail(Code::Invalid, "{} is no token", kToken);
    if (const auto root = value(environment, kRoot); !root.empty()) {
        auto path = policy::normalise(root);
        if (!path || *path == "/")
            return fail(Code::Invalid, "{} is no absolute directory: {}", kRoot, printable(root, 100));
        out.root = *std::move(path);
    }
    out.place.who = "the exec-server";
    out.place.advice = fmt::format("check {}", kUrl);
    return out;
}

} // namespace berth::exec_server
