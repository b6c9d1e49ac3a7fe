#include "backend/local/local_backend_with.hpp"

namespace berth::local {

Task<Status> LocalBackend::pause(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [](Sandbox& s) { return s.pause(); });
}

Task<Status> LocalBackend::resume(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [](Sandbox& s) { return s.resume(); });
}

} // namespace berth::local
