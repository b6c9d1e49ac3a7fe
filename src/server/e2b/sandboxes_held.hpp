#pragma once

#include "server/e2b/sandboxes.hpp"
#include "server/gate/tenant.hpp"

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

using gate::kTenantLabel;

} // namespace berth::e2b
