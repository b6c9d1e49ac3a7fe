#pragma once

#include "server/e2b/sandboxes.hpp"

namespace berth::e2b {

/// Alone with an entry for as long as it lives.
struct Sandboxes::Held {
    EntryPtr entry;
    explicit Held(EntryPtr one) : entry(std::move(one)) { entry->busy = true; }
    Held(Held&& other) noexcept = default;
    Held& operator=(Held&&) noexcept = default;
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    ~Held()
    {
        if (entry) entry->busy = false;
    }
};

inline constexpr std::string_view kTenantLabel = "berth.tenant"; ///< on every sandbox a tenant made

} // namespace berth::e2b
