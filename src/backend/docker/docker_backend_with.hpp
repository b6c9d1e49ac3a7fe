#pragma once

#include "backend/docker/docker_backend.hpp"
#include "keeping/native.hpp"

/// How every operation of the backend gets at its sandbox, for the sources that have some.
namespace berth::docker {

template <class F>
auto DockerBackend::with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>
{
    co_return co_await pool_.call([&]() -> std::invoke_result_t<F, Sandbox&> {
        BERTH_CHECK(keeping::check_native(handle.native));
        return held_.with(handle.native, [&] { return Sandbox::open(dirs_, *engine_, handle.native); }, work);
    });
}

} // namespace berth::docker
