#include "server/e2b/proxy_answer.hpp"

#include "base/json.hpp"

namespace berth::e2b {

namespace {

bool is_browser(const http::RequestHead& head)
{
    if (!head.value("user-agent").starts_with("Mozilla/")) return false;
    const auto accept = head.value("accept");
    return accept.empty() || accept.find("text/html") != accept.npos || accept.find("*/*") != accept.npos;
}

/// The words of a program inside, or of whoever made the request, are no markup of ours.
std::string escaped(std::string_view text)
{
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        default: out += c;
        }
    }
    return out;
}

} // namespace

http::Response proxy_answer(const http::RequestHead& head, const ProxyRefusal& refusal)
{
    if (!is_browser(head)) {
        json::Object out;
        out["sandboxId"] = refusal.sandbox;
        out["message"] = refusal.message;
        if (refusal.port != 0) out["port"] = refusal.port;
        out["code"] = refusal.status;
        return http::json_response(refusal.status, out);
    }
    std::string about = fmt::format("<p>Sandbox <code>{}</code></p>", escaped(refusal.sandbox));
    if (refusal.port != 0) about += fmt::format("<p>Port <code>{}</code></p>", refusal.port);
    http::Response page{.status = refusal.status};
    page.body = fmt::format("<!doctype html><html><head><meta charset=\"utf-8\"><title>{}</title></head>"
                            "<body><h1>{}</h1><p>{}</p>{}</body></html>\n",
                            refusal.title, refusal.title, escaped(refusal.message), about);
    page.with("Content-Type", "text/html; charset=utf-8");
    page.with("Content-Security-Policy", "default-src 'none'");
    return page;
}

} // namespace berth::e2b
