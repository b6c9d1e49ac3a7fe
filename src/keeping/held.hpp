#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "base/result.hpp"

namespace berth::keeping {

/// The sandboxes a process has open, by their native names; each for one thread at a time.
template <class Sandbox> class Held {
public:
    struct Place {
        std::mutex mutex;
        std::optional<Sandbox> sandbox; ///< empty while it is made
        bool retired = false; ///< its keeper is gone, or it could not be made: not in the map any more
    };

    /// Nothing when it is not open.
    [[nodiscard]] std::shared_ptr<Place> find(const std::string& native) const
    {
        const std::scoped_lock lock(mutex_);
        const auto at = places_.find(native);
        return at == places_.end() ? nullptr : at->second;
    }

    /// Empty, when there was none.
    [[nodiscard]] std::shared_ptr<Place> place(const std::string& native)
    {
        const std::scoped_lock lock(mutex_);
        auto& slot = places_[native];
        if (!slot) slot = std::make_shared<Place>();
        return slot;
    }

    /// The caller has its lock.
    void retire(const std::string& native, Place& place)
    {
        place.retired = true;
        place.sandbox.reset();
        const std::scoped_lock lock(mutex_);
        const auto at = places_.find(native);
        if (at != places_.end() && at->second.get() == &place) places_.erase(at);
    }

    /// `work(Sandbox&)`, alone with it. When its keeper is gone by then, or goes meanwhile, `open()` gets it
    /// anew: what was asked of a dead keeper has no effect.
    template <class Open, class Work>
    [[nodiscard]] auto with(const std::string& native, const Open& open, Work& work)
        -> std::invoke_result_t<Work, Sandbox&>
    {
        using Answer = std::invoke_result_t<Work, Sandbox&>;
        constexpr int most = 3;
        for (int tries = 0;; ++tries) {
            auto found = find(native);
            if (!found) {
                BERTH_TRY(auto opened, open());
                found = put(native, std::move(opened));
            }
            const std::scoped_lock lock(found->mutex);
            if (found->retired) continue;
            if (found->sandbox && found->sandbox->alive()) {
                Answer answer = work(*found->sandbox);
                if (answer || tries >= most || found->sandbox->alive()) return answer;
            }
            retire(native, *found);
        }
    }

private:
    [[nodiscard]] std::shared_ptr<Place> put(const std::string& native, Sandbox sandbox)
    {
        const std::scoped_lock lock(mutex_);
        auto& slot = places_[native];
        if (slot) return slot; // somebody was faster
        slot = std::make_shared<Place>();
        slot->sandbox.emplace(std::move(sandbox));
        return slot;
    }

    mutable std::mutex mutex_; ///< of the map alone; taken last
    // Shared: an operation under way keeps what a destroy beside it takes out of the map.
    std::map<std::string, std::shared_ptr<Place>> places_;
};

} // namespace berth::keeping
