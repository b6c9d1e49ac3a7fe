#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "keeping/account.hpp"
#include "policy/bind.hpp"
#include "sys/seccomp.hpp"
#include "sys/step_list.hpp"

namespace berth::keeping {

/// The supervisor of a sandbox whose policy has deny patterns, or of one command of it: a process beside the
/// first one, outside of the filter, that carries out every call with a path
/// (docs/explain/threat-model.md). What it needs to start, and what it tells.
class Supervision {
public:
    /// Nothing without patterns. `programs`, absolute: of one command alone, where it may lie.
    [[nodiscard]] static Result<std::optional<Supervision>> make(const policy::BoundFiles& files,
                                                                 std::span<const std::string> programs = {});
    /// Everybody under the filter is this user and cannot cease to be: it need not be looked up at each call.
    [[nodiscard]] Status only(const Account& user);

    // A launch has these steps in this order: the process, the filter, and after the exec of the first
    // process the block of the supervisor, whose number in the list is said beforehand.

    /// After landlock, which holds for both, and before capabilities are dropped.
    void add_process(sys::StepList& list, std::uint32_t block) const;
    void add_filter(sys::StepList& list, const sys::FilterOptions& options) const;
    /// The exec of one command.
    void add_command(sys::StepList& list, const std::vector<std::string>& programs,
                     const std::vector<std::string>& argv, const std::vector<std::string>& env) const;
    /// `caps`: whatever anybody under the filter may have.
    void add_block(sys::StepList& list, std::uint64_t caps, bool ordinary_user) const;

    /// After the launch: closes what only the sandbox needs.
    void let_go();
    /// How many calls were refused because of a pattern.
    [[nodiscard]] std::uint64_t refused() const;

private:
    UniqueFd config_;
    UniqueFd image_;
    UniqueFd first_;  ///< the first program of one command
    UniqueFd theirs_; ///< the supervisor's end
    UniqueFd ours_;   ///< the first process's end
};

} // namespace berth::keeping
