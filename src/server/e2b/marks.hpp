#pragma once

#include "core/backend.hpp"
#include "server/e2b/entry.hpp"

namespace berth::e2b {

/// The files below /run/e2b that programs inside look at to learn where they run. What cannot be written is
/// told in the log: the sandbox is of use without them.
Task<void> leave_marks(Backend& backend, SandboxHandle sandbox, const Entry& entry);

} // namespace berth::e2b
