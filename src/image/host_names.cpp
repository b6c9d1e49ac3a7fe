#include "image/host_names.hpp"

#include <fmt/format.h>

namespace berth::image {

namespace {

constexpr std::string_view kBefore = "127.0.0.1\tlocalhost ";

} // namespace

std::string hosts_file(std::string_view host_name)
{
    return fmt::format("{}{}\n::1\tlocalhost ip6-localhost ip6-loopback\n", kBefore, host_name);
}

std::string host_name_file(std::string_view host_name) { return fmt::format("{}\n", host_name); }

bool is_our_hosts_file(std::string_view text)
{
    if (!text.starts_with(kBefore)) return false;
    const auto name = text.substr(kBefore.size(), text.find('\n') - kBefore.size());
    return text == hosts_file(name);
}

} // namespace berth::image
