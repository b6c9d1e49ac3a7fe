#include "backend/local/pools.hpp"

#include <unistd.h>

#include "backend/local/environment.hpp"

namespace berth::local {

Status Pools::refill()
{
    while (identities_.size() < sizes_.identities) {
        BERTH_TRY(auto identity, make_identity(*state_, state_->path()));
        if (identity.mode != IdMode::Mapped) break; // nothing to make ahead
        identity.user_namespace.settle();
        identities_.push_back(std::move(identity));
    }
    // An ordinary user's namespaces belong to the sandbox's own user namespace and are made with it.
    if (::geteuid() == 0) BERTH_CHECK(networks_.refill());
    return groups_.refill(sizes_.groups);
}

Result<Identity> Pools::take_identity(const std::string& idmap_probe)
{
    if (identities_.empty()) return make_identity(*state_, idmap_probe);
    Identity identity = std::move(identities_.front());
    identities_.pop_front();
    return identity;
}

UniqueFd Pools::take_network()
{
    if (networks_.ready() == 0) return {};
    auto taken = networks_.take();
    return taken ? *std::move(taken) : UniqueFd{};
}

Result<RootLayers> Pools::layers(const Template& root, const Progress& progress)
{
    for (const auto& [known, found] : templates_)
        if (known == root) return found;
    BERTH_TRY(auto found, resolve_template(*state_, root, progress));
    // A name may mean another image tomorrow, and finding out costs three small files.
    if (root.kind == Template::Kind::Oci) return found;
    templates_.emplace_back(root, found);
    return found;
}

Result<Account> Pools::account(const std::string& user, const RootLayers& layers, const Identity& identity)
{
    if (layers.kind != Template::Kind::Host) return account_for(user, layers, identity);
    const auto known = accounts_.find(user);
    if (known != accounts_.end()) return known->second;
    BERTH_TRY(auto found, account_for(user, layers, identity));
    accounts_.emplace(user, found);
    return found;
}

} // namespace berth::local
