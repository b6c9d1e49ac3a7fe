#pragma once

#include "backend/local/local_backend.hpp"
#include "keeping/native.hpp"

/// How every operation of the local backend gets at its sandbox, for the sources that have some.
namespace berth::local {

template <class F>
auto LocalBackend::with_now(const SandboxHandle& handle, F work) -> std::invoke_result_t<F, Sandbox&>
{
    BERTH_CHECK(keeping::check_native(handle.native));
    const auto then_rest = [&](Sandbox& sandbox) {
        auto answer = work(sandbox);
        sandbox.rest();
        return answer;
    };
    return held_.with(handle.native, [&] { return Sandbox::open(state_, handle.native); }, then_rest);
}

template <class F>
auto LocalBackend::with(SandboxHandle handle, F work) -> Task<std::invoke_result_t<F, Sandbox&>>
{
    co_return co_await pool_.call([&] { return with_now(handle, work); });
}

} // namespace berth::local
