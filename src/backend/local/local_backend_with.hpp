#pragma once

#include "backend/local/local_backend.hpp"

/// How every operation of the local backend gets at its sandbox, for the sources that have some.
namespace berth::local {

template <class F>
auto LocalBackend::with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>
{
    using Answer = std::invoke_result_t<F, Sandbox&>;
    co_return co_await pool_.call([&]() -> Answer {
        BERTH_TRY(const auto place, find(handle));
        const std::scoped_lock lock(place->mutex);
        if (!place->sandbox) return fail(Code::NotFound, "no sandbox {}", handle.sandbox);
        return work(*place->sandbox);
    });
}

template <class F>
auto LocalBackend::with_files(SandboxHandle handle, std::string user, F work)
    -> Task<std::invoke_result_t<F, const sys::SandboxFiles&>>
{
    using Answer = std::invoke_result_t<F, const sys::SandboxFiles&>;
    const auto open = [&](Sandbox& sandbox) { return sandbox.files(user); };
    BERTH_CO_TRY(const auto files, co_await with(handle, open));
    co_return co_await pool_.call([&]() -> Answer { return work(files); });
}

} // namespace berth::local
