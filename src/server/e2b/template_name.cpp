#include "server/e2b/template_name.hpp"

#include <sys/sysinfo.h>

#include <cctype>
#include <thread>

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

bool word(std::string_view text, std::string_view more)
{
    if (text.empty() || text.size() > 128) return false;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && more.find(c) == std::string_view::npos) return false;
    }
    return true;
}

/// Ids of builds are such: a tag must not look like one.
bool is_uuid(std::string_view text)
{
    if (text.size() != 36) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !std::isxdigit(static_cast<unsigned char>(text[i]))) return false;
    }
    return true;
}

} // namespace

std::string lower_case(std::string_view text)
{
    std::string out(text);
    for (auto& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

Result<TemplateName> parse_template_name(std::string_view text)
{
    const auto bad = [&] {
        return fail(Code::Invalid, "invalid template name '{}': [namespace/]alias[:tag]",
                    printable(text, 100));
    };
    const std::string lower = lower_case(text);
    std::string_view rest = lower;
    TemplateName out;
    if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
        out.tag = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (!word(out.tag, "-_.") || is_uuid(out.tag)) return bad();
    }
    if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
        out.space = rest.substr(0, slash);
        rest = rest.substr(slash + 1);
        if (!word(out.space, "-_")) return bad();
    }
    out.alias = rest;
    if (!word(out.alias, "-_")) return bad();
    return out;
}

std::string_view given_template(const TemplateName& name)
{
    if (!name.space.empty() || name.tag != "default") return {};
    for (const auto one : {kBaseTemplate, kGatewayTemplate, kInterpreterTemplate})
        if (name.alias == one) return one;
    return {};
}

MachineSize machine_size()
{
    MachineSize out;
    out.cpus = std::max(1u, std::thread::hardware_concurrency());
    struct sysinfo info{};
    if (::sysinfo(&info) == 0) out.memory_mb = static_cast<unsigned>(info.totalram * info.mem_unit >> 20);
    out.disk_mb = out.memory_mb / 4;
    return out;
}

} // namespace berth::e2b
