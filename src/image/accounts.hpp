#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace berth::image {

/// The account a sandbox's commands run as by default; its group has the same number.
inline constexpr uid_t kUserId = 1000;

/// The accounts of template `host`. Generated, never the host's: who has an account on the machine
/// is nobody's business inside.
[[nodiscard]] std::string passwd_file(std::string_view shell);
[[nodiscard]] std::string group_file();
/// Names are looked up in the files above, whatever directory service the host uses.
[[nodiscard]] std::string nsswitch_file();

} // namespace berth::image
