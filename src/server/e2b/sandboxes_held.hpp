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

/// What an entry has of its template, and back. What the entry has of the environment stays.
[[nodiscard]] BuildDefaults defaults_of(const Entry& entry);
void give(Entry& entry, const BuildDefaults& defaults);

} // namespace berth::e2b
