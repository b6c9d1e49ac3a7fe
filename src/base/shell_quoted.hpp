#pragma once

#include <string>
#include <string_view>

namespace berth {

/// `word` as a shell reads it as one; unchanged where that is so anyway.
[[nodiscard]] std::string shell_quoted(std::string_view word);

} // namespace berth
