#pragma once

#include <functional>

#include "base/result.hpp"

namespace berth {

/// What else is wanted of an exec that is started.
struct ExecWish {
    /// Done where calls may block, before it is recorded and started. Refused: it is not.
    std::function<Status()> first;
    /// Whoever asks reads its log from the beginning at once.
    bool followed = false;
    /// The same, and attends it (core/attends.hpp).
    bool attended = false;
};

} // namespace berth
