#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/local/sandbox.hpp"
#include "bench/context.hpp"
#include "policy/policy.hpp"

namespace berth::bench {

struct DestroySandbox {
    void operator()(local::Sandbox* sandbox) const noexcept;
};
/// A sandbox with a keeper that ends with this program, as nothing of a measurement may stay.
using Kept = std::unique_ptr<local::Sandbox, DestroySandbox>;

[[nodiscard]] Result<Kept> make_kept(Context& context, const SandboxSpec& spec,
                                     const local::Sandbox::Options& options);

/// An exec of `argv` with a fresh id.
[[nodiscard]] ExecSpec exec_of(const std::vector<std::string>& argv);

/// Starts it and waits for its end: exit code 0 or an error.
[[nodiscard]] Status exec_and_wait(local::Sandbox& sandbox, const ExecSpec& exec);

/// The same for a command whose output matters: what it wrote to stdout, and how it ended.
struct Told {
    std::string output;
    ExitStatus status;
};
[[nodiscard]] Result<Told> exec_and_read(local::Sandbox& sandbox, const ExecSpec& exec);

/// Frees everything an ended exec holds, its log included.
void discard(Context& context, local::Sandbox& sandbox, const std::string& exec);

/// Proves that execs share the sandbox and nothing else: a file one of them wrote is there for the next
/// and not outside, and exit codes are the command's own.
[[nodiscard]] Status check_kept(Context& context, local::Sandbox& sandbox);

/// Narrower than the policy of `spec`: everything read-only but /tmp, one directory closed.
[[nodiscard]] policy::Policy narrower(const SandboxSpec& spec);

/// Proves that an exec with that policy is held to it.
[[nodiscard]] Status check_narrower(Context& context, local::Sandbox& sandbox);

} // namespace berth::bench
