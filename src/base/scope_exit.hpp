#pragma once

#include <utility>

namespace berth {

/// Runs a function when the scope ends, unless dismissed. Always a named local.
template <class F> class [[nodiscard]] ScopeExit {
public:
    explicit ScopeExit(F f) noexcept : f_(std::move(f)) {}
    ScopeExit(const ScopeExit&) = delete;
    ScopeExit& operator=(const ScopeExit&) = delete;
    ~ScopeExit()
    {
        if (armed_) f_();
    }
    void dismiss() noexcept { armed_ = false; }

private:
    F f_;
    bool armed_ = true;
};

} // namespace berth
