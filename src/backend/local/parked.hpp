#pragma once

#include <string>
#include <vector>

#include "backend/local/instance.hpp"
#include "backend/local/sandbox.hpp"

namespace berth::local {

/// An instance whose keeper answers and which is nobody's yet: one that was made ahead, so that whoever asks
/// for a sandbox of its shape (core/parking.hpp) need not wait for the launch. Nothing has run in it, and
/// nothing of anybody's is in it; it becomes one sandbox and is never parked again.
///
/// It is a create that rests before its last step. Its directory has no record, so nobody finds an instance
/// there, and it is locked by us, so nobody takes it for a leftover; when we are killed the kernel opens
/// the lock, and it is one. Its keeper ends with us, whatever becomes of the state directory, until the
/// record is written. For one thread.
class Parked {
public:
    [[nodiscard]] static Result<Parked> make(const StateDir& state, const SandboxSpec& spec,
                                             const Sandbox::Options& options);
    Parked(Parked&&) noexcept = default;
    Parked& operator=(Parked&&) noexcept = delete;
    /// Lets go: its keeper ends, and whoever collects finds the rest.
    ~Parked() = default;

    /// Becomes the sandbox of that spec, which has its id. Where it does not fit, or cannot be given what the
    /// spec asks for, it is removed.
    [[nodiscard]] Result<Sandbox> claim(const SandboxSpec& spec, const Sandbox::Options& options) &&;
    [[nodiscard]] Status destroy() &&;

private:
    Parked(Sandbox sandbox, Instance instance, UniqueFd maker, std::string snapshot)
        : sandbox_(std::move(sandbox)), instance_(std::move(instance)), maker_(std::move(maker)),
          snapshot_(std::move(snapshot))
    {
    }
    [[nodiscard]] Status warm_up();
    [[nodiscard]] Status become(const SandboxSpec& spec, const Sandbox::Options& options);
    [[nodiscard]] Status check_fit(const SandboxSpec& spec, const Sandbox::Options& options) const;
    [[nodiscard]] Status set_limits(const SandboxSpec& spec);

    Sandbox sandbox_;
    Instance instance_;
    UniqueFd maker_;          ///< our end of what its keeper knows us by
    std::string snapshot_;    ///< it was made from; may be empty
    bool host_files_ = false; ///< it has copies of its own to be named in
};

/// Removes those whose maker is gone, or tells them.
[[nodiscard]] Result<std::vector<std::string>> remove_left_parked(const StateDir& state, bool dry_run);

} // namespace berth::local
