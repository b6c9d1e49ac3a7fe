#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::gate {

/// Who a key belongs to; the secret itself is not kept.
struct Key {
    std::string id; ///< the first characters of the secret's digest
    std::string tenant;
    std::string note;
    std::string sha256;
    WallTime created{};
};

/// Names a tenant may have: 1 to 40 letters, digits, '-' and '_'.
[[nodiscard]] Status check_tenant(std::string_view tenant);

/// The API keys of a state directory, in a file only its owner may read. Several processes may change it:
/// each question looks, or what watches the directory says when to.
class Keys {
public:
    /// `data` is the state directory.
    explicit Keys(std::string data) : data_(std::move(data)) {}

    /// The key made at the first start; made now where there is none.
    [[nodiscard]] Result<std::string> first();
    /// The secret: told once. "e2b_" and hexadecimal digits, a form every SDK takes.
    [[nodiscard]] Result<std::string> add(const std::string& tenant, const std::string& note);
    /// As list() shows it.
    [[nodiscard]] static std::string id_of(std::string_view secret);
    [[nodiscard]] Result<std::vector<Key>> list() const;
    /// By id. NotFound when there is none.
    [[nodiscard]] Result<Key> remove(const std::string& id);

    /// One that counts as well, for as long as this object lives: BERTH_API_KEY.
    void also(std::string_view secret);
    /// Readable when something in the state directory has changed, for whoever calls changed() then; -1 where
    /// there is no such thing. From here on questions look for themselves once a second only (another machine
    /// may have changed the file), which every request would pay for.
    [[nodiscard]] int watch();
    void changed();
    /// Whose it is; nothing for a key nobody has.
    [[nodiscard]] std::optional<std::string> tenant_of(std::string_view secret);

    static constexpr std::string_view kDefaultTenant = "default";

private:
    [[nodiscard]] Result<Key> keep(const std::string& secret, const std::string& tenant,
                                   const std::string& note) const;
    void reload();
    [[nodiscard]] bool may_have_changed();

    std::string data_;
    std::string own_; ///< its digest
    std::vector<Key> known_;
    std::int64_t stamp_ = -1; ///< of the file when it was read
    UniqueFd changes_;        ///< of the state directory
    SteadyTime look_at_{};
};

} // namespace berth::gate
