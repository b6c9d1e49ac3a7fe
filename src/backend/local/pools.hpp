#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string_view>

#include "backend/local/group_pool.hpp"
#include "backend/local/identity.hpp"
#include "backend/local/plan.hpp"
#include "sys/netns.hpp"

namespace berth::local {

/// What a launch needs that can be made ahead, off the request path: identities (an id range and
/// its user namespace), network namespaces, control groups, and the directories of a template that was looked
/// up. A network namespace is never used twice. Empty pools only cost time. For one thread.
class Pools {
public:
    struct Sizes {
        std::size_t identities = 0;
        std::size_t networks = 0;
        std::size_t groups = 0;
    };

    Pools(const StateDir& state, Sizes sizes)
        : state_(&state), sizes_(sizes), networks_(sizes.networks), groups_(state)
    {
    }

    /// Makes up what was taken.
    [[nodiscard]] Status refill();

    [[nodiscard]] Result<Identity> take_identity(const std::string& idmap_probe);
    /// A ready-made namespace; empty when there are none: the clone then makes its own.
    [[nodiscard]] UniqueFd take_network();
    [[nodiscard]] GroupPool& groups() noexcept { return groups_; }

    using Progress = std::function<void(std::string_view)>;
    [[nodiscard]] Result<RootLayers> layers(const Template& root, const Progress& progress);
    /// account_for, remembered where the accounts are our own and do not change.
    [[nodiscard]] Result<Account> account(const std::string& user, const RootLayers& layers,
                                          const Identity& identity);

private:
    const StateDir* state_;
    Sizes sizes_;
    std::deque<Identity> identities_;
    sys::NetNamespacePool networks_;
    GroupPool groups_;
    std::deque<std::pair<Template, RootLayers>> templates_;
    std::map<std::string, Account> accounts_; ///< of template host
};

} // namespace berth::local
