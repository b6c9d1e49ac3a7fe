#include "backend/e2b/config.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kShortest = 15s; // less and a command could outlive the sandbox between two calls
constexpr auto kLongest = 24h;
constexpr std::string_view kEnvdPort = "49983";

std::string value(const std::map<std::string, std::string>& all, const std::string& name)
{
    const auto at = all.find(name);
    return at == all.end() ? std::string{} : at->second;
}

Result<http_client::Origin> origin(std::string_view url, std::string_view variable)
{
    auto out = http_client::parse_url(url);
    if (!out) return std::unexpected(std::move(out).error().while_doing(fmt::format("reading {}", variable)));
    out->place.who = "the E2B server";
    out->place.advice = "check E2B_API_URL, E2B_SANDBOX_URL and E2B_DOMAIN";
    return out;
}

} // namespace

std::map<std::string, std::string> config_environment()
{
    std::map<std::string, std::string> out;
    for (const char* name : {"E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_DOMAIN", "E2B_TEMPLATE",
                             "E2B_TEMPLATE_ID", "E2B_TIMEOUT_MS"})
        if (const char* text = std::getenv(name)) out[name] = text; // NOLINT(concurrency-mt-unsafe)
    return out;
}

Result<Config> read_config(const std::map<std::string, std::string>& environment)
{
    Config out;
    out.key = value(environment, "E2B_API_KEY");
    if (out.key.empty())
        return fail(Code::Invalid,
                    "backend e2b needs a key: set E2B_API_KEY (for a berth server, berth key add)");
    if (out.key.size() > 4096 || std::ranges::any_of(out.key, [](char c) { return c <= ' ' || c >= 0x7f; }))
        return fail(Code::Invalid, "E2B_API_KEY is no key");
    if (const auto domain = value(environment, "E2B_DOMAIN"); !domain.empty()) out.domain = domain;
    const auto url = value(environment, "E2B_API_URL");
    BERTH_TRY(out.api, origin(url.empty() ? "https://api." + out.domain : url, "E2B_API_URL"));
    if (const auto all = value(environment, "E2B_SANDBOX_URL"); !all.empty()) {
        BERTH_TRY(out.sandboxes, origin(all, "E2B_SANDBOX_URL"));
    }
    for (const char* name : {"E2B_TEMPLATE_ID", "E2B_TEMPLATE"})
        if (const auto named = value(environment, name); !named.empty()) out.template_id = named;
    if (const auto time = value(environment, "E2B_TIMEOUT_MS"); !time.empty()) {
        BERTH_TRY(const auto ms, parse_int(time, 0, INT64_MAX / 2, "E2B_TIMEOUT_MS"));
        const auto asked = std::chrono::ceil<std::chrono::seconds>(std::chrono::milliseconds(ms));
        out.timeout = std::clamp<std::chrono::seconds>(asked, kShortest, kLongest);
    }
    return out;
}

Result<http_client::Origin> envd_origin(const Config& config, const std::string& sandbox,
                                        const std::string& domain)
{
    if (config.sandboxes) return *config.sandboxes;
    const std::string& below = domain.empty() ? config.domain : domain;
    for (const std::string_view shared : {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"})
        if (below == shared) return origin("https://sandbox." + below, "E2B_DOMAIN");
    return origin(fmt::format("https://{}-{}.{}", kEnvdPort, sandbox, below), "E2B_DOMAIN");
}

} // namespace berth::e2b_client
