// A request is the same however its bytes come, and whatever is taken for one has a target that is a path or
// is refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/http/inflate.hpp"
#include "server/http/parser.hpp"

namespace {

using namespace berth;

std::string told(std::string_view bytes, std::size_t piece)
{
    http::MessageParser parser(http::MessageParser::Kind::Request);
    std::string waiting, body;
    for (std::size_t at = 0; at < bytes.size() && !parser.done(); at += piece) {
        waiting += bytes.substr(at, piece);
        const auto used = parser.feed(waiting);
        if (!used) return "refused";
        if (*used > waiting.size()) std::abort();
        waiting.erase(0, *used);
        body += parser.take_body();
    }
    if (!parser.head_done()) return "unfinished";
    auto head = parser.take_head();
    std::string out = head.method + " " + head.target + "\n";
    for (const auto& [name, value] : head.headers) out += name + ": " + value + "\n";
    (void)http::split_target(head);
    (void)head.host();
    (void)head.media_type();
    return out + (parser.done() ? "done\n" : "more\n") + body;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    const auto whole = told(bytes, size + 1);
    const auto parts = told(bytes, 1);
    // A bad byte behind a good beginning is seen when it comes.
    if (whole != parts && whole != "refused" && parts != "refused") std::abort();
    http::Inflater inflater;
    std::string out, packed(bytes.substr(0, 4096));
    for (auto more = inflater.feed(packed, out, 65536); more && *more && out.size() < (1u << 22);)
        more = inflater.feed(packed, out, 65536);
    return 0;
}
