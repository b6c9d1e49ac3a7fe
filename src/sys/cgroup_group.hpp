#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/cgroup_files.hpp"
#include "sys/cgroup_layout.hpp"

namespace berth::sys {

/// What a group may use; what is absent is not limited.
struct GroupLimits {
    std::optional<Bytes> memory{}; ///< swap included: none is allowed on top
    std::optional<std::uint64_t> pids{};
    std::optional<double> cpus{};         ///< 1.5 is one and a half processors
    std::optional<unsigned> cpu_weight{}; ///< 1 to 10000, 100 is everybody's
    bool oom_takes_all = false;           ///< v2: the whole group dies, not one process of it

    [[nodiscard]] ControllerSet controllers() const noexcept;
};

/// The directories of one group. Empty: the group does not exist in that hierarchy. A controller
/// without a v1 directory is in the v2 one, if at all.
struct GroupPlaces {
    std::string v2;
    std::array<std::string, kControllers.size()> v1{};

    [[nodiscard]] GroupPlaces below(const std::string& name) const;
    /// Each directory once: controllers of v1 may share a hierarchy.
    [[nodiscard]] std::vector<std::string> distinct_v1() const;
    [[nodiscard]] bool empty() const { return v2.empty() && distinct_v1().empty(); }
    bool operator==(const GroupPlaces&) const = default;
};

/// One group, in every hierarchy it needs. In hybrid layouts v2 serves birth, kill and freeze, v1
/// the limits. Destroying it kills what is in it and removes it, unless it was released.
class SandboxGroup {
public:
    [[nodiscard]] static Result<SandboxGroup> create(const GroupPlaces& places, const GroupLimits& limits);
    /// One that exists, made by whomever; destroying it changes nothing.
    [[nodiscard]] static Result<SandboxGroup> open(const GroupPlaces& places);
    SandboxGroup(SandboxGroup&& other) noexcept;
    SandboxGroup& operator=(SandboxGroup&& other) noexcept;
    SandboxGroup(const SandboxGroup&) = delete;
    SandboxGroup& operator=(const SandboxGroup&) = delete;
    ~SandboxGroup();

    [[nodiscard]] const GroupPlaces& places() const noexcept { return places_; }

    /// v2 directory for CLONE_INTO_CGROUP; -1 where there is none. Borrowed.
    [[nodiscard]] int birth_directory() const { return v2(); }
    /// v1 `tasks` files into which the child writes "0". Borrowed.
    [[nodiscard]] std::vector<int> birth_tasks() const;

    [[nodiscard]] Status set_limits(const GroupLimits& limits);
    /// Lets a process with these ids bring its children into this group (v2; see KeptGroup::delegate).
    [[nodiscard]] Status delegate(uid_t uid, gid_t gid) const;

    /// SIGKILL to all, also to what daemonized, and waits until nobody is left. Frozen ones too.
    [[nodiscard]] Status kill_all(Patience patience = Patience(5000));
    /// Waits until all have stopped; DeadlineExceeded leaves the group thawed.
    [[nodiscard]] Status freeze(Patience patience = Patience(5000));
    [[nodiscard]] Status thaw();
    /// Whether somebody asked for its freeze: also one that is still under way. Not of groups above.
    [[nodiscard]] Result<bool> frozen() const;
    [[nodiscard]] bool can_freeze() const noexcept { return has_v2() || is_v1(Controller::Freezer); }

    [[nodiscard]] Result<std::uint64_t> oom_kills() const;             ///< processes the memory limit killed
    [[nodiscard]] Result<std::uint64_t> pids_max_events() const;       ///< forks the pids limit refused
    [[nodiscard]] Result<std::chrono::microseconds> throttled() const; ///< how long the cpu limit held them
    [[nodiscard]] Result<std::chrono::microseconds> cpu_used() const;
    [[nodiscard]] Result<Bytes> memory_current() const;
    [[nodiscard]] Result<Bytes> memory_peak() const;

    /// Kills what is still in it, then removes it everywhere.
    [[nodiscard]] Status remove(Patience patience = Patience(5000));
    /// Closes its descriptors until they are needed again: for whoever holds thousands of groups.
    void rest() noexcept;
    /// From here on it outlives this object.
    void release() noexcept { owned_ = false; }

private:
    explicit SandboxGroup(GroupPlaces places) noexcept : places_(std::move(places)) {}
    Status open_directories();
    Status open_tasks() const;
    [[nodiscard]] bool has_v2() const noexcept { return !places_.v2.empty(); }
    [[nodiscard]] int v2() const;
    Status kill_v1(Patience patience);
    [[nodiscard]] bool is_v1(Controller c) const noexcept { return !places_.v1[index(c)].empty(); }
    [[nodiscard]] Result<std::string> read(Controller c, const char* v1_file, const char* v2_file) const;
    [[nodiscard]] Status write(Controller c, const char* v1_file, const char* v2_file,
                               const std::string& v) const;

    GroupPlaces places_;
    mutable UniqueFd v2_; ///< opened when it is needed, like the others
    mutable std::vector<UniqueFd> tasks_;
    bool owned_ = false;
};

} // namespace berth::sys
