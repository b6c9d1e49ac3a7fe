#pragma once

#include "lifecycle/lifecycle.hpp"

namespace berth {

/// The store blocks: it is asked on the pool.
template <class F> auto Lifecycle::stored(F work) -> Task<std::invoke_result_t<F, Store&>>
{
    co_return co_await pool_.call([&] { return work(store_); });
}

} // namespace berth
