#pragma once

#include <functional>

namespace berth::cli {

/// Carries work out in a child, so that it can be ended in the middle of whatever it does. Its exit code is
/// ours. INT, TERM and HUP kill it; `undo` then puts right what it left, and the code is that of a program
/// which the signal ended. To be called before there are threads.
[[nodiscard]] int supervised(const std::function<int()>& work, const std::function<void()>& undo);

} // namespace berth::cli
