#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "keeping/protected_search.hpp"
#include "keeping/rule_site.hpp"

namespace berth::keeping {

/// Names that stay read-only below writable rules (".git", ".codex").
///
/// Held are: every such name that exists in a mounted host directory when the command starts, at
/// any depth, and the name at the top of each writable root even if it does not exist: there an
/// empty placeholder is made for as long as sandboxes use the directory, because a mount needs
/// something to lie on. In a live view the same is done for a path that a rule denies or makes read-only and
/// that does not exist; what another sandbox's placeholder stands for does not. The temporary directories of
/// a live view are everybody's: nothing in them is protected. A placeholder is locked (shared) by each of its
/// users; the last one removes it. After kill -9 the record in the state directory lets the next run do so.
class ProtectedNames {
public:
    ProtectedNames() = default;
    ProtectedNames(ProtectedNames&&) noexcept = default;
    ProtectedNames& operator=(ProtectedNames&&) noexcept = default;
    ~ProtectedNames();

    /// Finds and makes what is needed for the site's file rules.
    [[nodiscard]] static Result<ProtectedNames> hold(const RuleSite& site);

    /// Absolute paths inside the sandbox.
    [[nodiscard]] const std::vector<std::string>& paths() const noexcept { return paths_; }

    /// Borrowed descriptors that hold the placeholders; the sandbox's first process keeps them open,
    /// so that they are held as long as it lives, whatever becomes of us.
    [[nodiscard]] std::vector<int> locks() const;

    /// Nothing runs any more that used them: their locks are given up, also in a process that is being
    /// started beside us and has copies of our descriptors until it executes something.
    void give_up() const;

    /// Removes placeholders whose users are all gone; what a killed run left behind.
    [[nodiscard]] static Result<std::size_t> sweep(int state);

private:
    struct Placeholder {
        UniqueFd lock;      ///< the placeholder itself, shared lock held
        std::string record; ///< file in the state directory
    };
    [[nodiscard]] Status hold_in_rule(const RuleSite& site, const Shown& bind, const policy::BoundRule& rule);
    [[nodiscard]] Status hold_name(const RuleSite& site, const policy::BoundRule& rule);
    [[nodiscard]] bool keep(int source, const std::string& name, UniqueFd directory, std::string record);
    [[nodiscard]] Status add_placeholder(int source, const std::string& name, const std::string& inside);
    [[nodiscard]] Result<std::string> make_placeholder(int source, const std::string& name,
                                                       const std::string& inside) const;

    std::vector<std::string> paths_;
    std::vector<Placeholder> placeholders_;
    int state_ = -1; ///< borrowed; outlives us
};

/// Whether an empty directory of the host, by its real path, is such a placeholder: nothing, that is, to
/// whoever asks what is there.
[[nodiscard]] bool is_placeholder(int state, const std::string& path);

} // namespace berth::keeping
