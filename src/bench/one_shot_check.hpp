#pragma once

#include "backend/local/one_shot.hpp"
#include "bench/context.hpp"

namespace berth::bench {

/// Runs `argv` in a throw-away sandbox; everything it wrote to stdout goes to `output` when given.
/// A signal that was meant for us and reached the command instead is told to the context.
[[nodiscard]] Result<local::RunOutcome> one_shot(Context& context, const SandboxSpec& spec,
                                                 const std::vector<std::string>& argv, local::Pools* pools,
                                                 std::string* output = nullptr);

/// Proves that what is timed is a sandbox: a file written inside is there inside and not outside, and
/// exit codes are the command's own.
[[nodiscard]] Status check_one_shot(Context& context);

/// A path that exists nowhere, for a file to be written inside, and what to write.
struct Token {
    std::string path;
    std::string text;
};
[[nodiscard]] Token make_token();

/// An error when the token's file exists out here.
[[nodiscard]] Status check_invisible(const Token& token);

} // namespace berth::bench
