#pragma once

#include "backend/docker/docker_backend.hpp"

/// How every operation of the backend gets at its sandbox, for the sources that have some.
namespace berth::docker {

template <class F>
auto DockerBackend::with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>
{
    using Answer = std::invoke_result_t<F, Sandbox&>;
    co_return co_await pool_.call([&]() -> Answer {
        constexpr int most = 3;
        for (int tries = 0;; ++tries) {
            BERTH_TRY(const auto place, find(handle.native));
            const std::scoped_lock lock(place->mutex);
            if (place->retired) continue;
            if (place->sandbox && place->sandbox->alive()) {
                Answer answer = work(*place->sandbox);
                if (answer || tries >= most || place->sandbox->alive()) return answer;
            }
            retire(handle.native, *place);
        }
    });
}

} // namespace berth::docker
