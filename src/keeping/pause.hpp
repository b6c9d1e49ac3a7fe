#pragma once

#include <chrono>
#include <utility>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/cgroup_kept.hpp"

namespace berth::keeping {

/// The right to start an exec, which many may have at once, or to freeze all of them, which excludes
/// everybody else: the keeper waits for a command it has just started to become a program, and one that
/// is frozen at that moment would take the keeper with it.
class Turn {
public:
    enum class Kind { Start, Freeze };
    /// `directory` is that of the sandbox. Unavailable when others do not let go of it.
    [[nodiscard]] static Result<Turn> take(int directory, Kind kind);
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

private:
    explicit Turn(UniqueFd lock) noexcept : lock_(std::move(lock)) {}
    UniqueFd lock_;
};

/// While it lives no command of a sandbox runs and none is started; then it goes on, unless it was paused
/// before or stay() was called.
class Stillness {
public:
    [[nodiscard]] static Result<Stillness> begin(int directory, sys::SandboxGroup& execs);
    Stillness(Stillness&& other) noexcept
        : turn_(std::move(other.turn_)), thaw_(std::exchange(other.thaw_, nullptr))
    {
    }
    Stillness& operator=(Stillness&&) = delete;
    ~Stillness();

    /// Leaves it frozen.
    void stay() noexcept { thaw_ = nullptr; }

private:
    Stillness(Turn turn, sys::SandboxGroup* thaw) noexcept : turn_(std::move(turn)), thaw_(thaw) {}
    Turn turn_;
    sys::SandboxGroup* thaw_;
};

/// Whether a sandbox is paused, and for how long it has been in all. The first is asked from the kernel,
/// the second stands in its directory: any process sees the same.
struct Paused {
    bool now = false;
    bool asked = false; ///< by somebody's word, not for the moment of a copy
    std::chrono::milliseconds in_all{0};
};
/// The record of it in the directory; empty where it cannot be opened.
[[nodiscard]] UniqueFd open_pauses(int directory);
[[nodiscard]] Result<Paused> look_paused(int directory, const sys::SandboxGroup& execs);

/// Freeze and thaw with a record of the time. Paused, or running, already is success.
[[nodiscard]] Status pause_execs(int directory, sys::SandboxGroup& execs);
[[nodiscard]] Status resume_execs(int directory, sys::SandboxGroup& execs);
/// The same, for whoever changes the instance and lets nobody else.
[[nodiscard]] Status end_pause(int directory, sys::SandboxGroup& execs);

} // namespace berth::keeping
