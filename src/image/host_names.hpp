#pragma once

#include <string>
#include <string_view>

namespace berth::image {

/// The files of a root of ours that say what it is called.
inline constexpr const char* kHostsPath = "etc/hosts";
inline constexpr const char* kHostNamePath = "etc/hostname";

[[nodiscard]] std::string hosts_file(std::string_view host_name);
[[nodiscard]] std::string host_name_file(std::string_view host_name);

/// Whether `text` is hosts_file() of some name: nobody has put lines of his own in.
[[nodiscard]] bool is_our_hosts_file(std::string_view text);

} // namespace berth::image
