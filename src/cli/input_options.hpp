#pragma once

#include <optional>
#include <string>

#include "base/json.hpp"
#include "cli/exec_yield.hpp"

namespace berth::cli {

/// The words of `berth input`, here and at a server.
struct InputOptions {
    Common common;
    YieldOptions yield;
    std::string ref;
    std::string exec;
    std::optional<std::string> text;
    std::string from;
    std::string write;
    bool enter = false;
    bool close = false;
};

void add_input_options(CLI::App& app, InputOptions& options);

struct InputWish {
    YieldInput input;
    YieldWish yield;
    std::uint64_t next = 0;
};
/// With "-" our standard input is read to its end.
[[nodiscard]] Result<InputWish> read_input(const InputOptions& options);

/// One turn to our streams, as documents::yielded() has it; the exit code. `sent`: bytes that were to be
/// typed.
[[nodiscard]] Result<int> tell_turn(const Common& common, const json::Object& turn, std::size_t sent);

} // namespace berth::cli
