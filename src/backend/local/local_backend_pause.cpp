#include "backend/local/local_backend_with.hpp"

namespace berth::local {

Task<Status> LocalBackend::pause(SandboxHandle sandbox)
{
    // Where it cannot be done the sandbox says why, and what would help.
    co_return co_await with(sandbox, [](Sandbox& s) { return s.pause(); });
}

Task<Status> LocalBackend::resume(SandboxHandle sandbox)
{
    if (!capabilities_.can(Operation::Pause)) co_return unsupported(Operation::Pause, name());
    co_return co_await with(sandbox, [](Sandbox& s) { return s.resume(); });
}

} // namespace berth::local
