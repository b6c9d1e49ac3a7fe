#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "berth/berth.hpp"
#include "cli/app.hpp"

namespace berth::cli {

/// The library, opened at the state directory the options name.
[[nodiscard]] Result<std::unique_ptr<Berth>> open_berth(const Common& common, Room room = Room::Ordinary);

/// What snapshot and fork leave behind when a signal ends them is put right, and it is said.
void clear_up(const Common& common, const std::string& ref);

/// All of it to stdout, and the exit code: 1 when it could not be written, which is said. A reader that
/// went away is not worth a word.
[[nodiscard]] int print(std::string_view text);
[[nodiscard]] int print_document(const json::Object& document);

/// How a sandbox was come by, here or by a server.
struct Outcome {
    std::string tier;
    std::string sandbox;
    std::string snapshot; ///< that it was made from; empty: none
    std::optional<std::chrono::nanoseconds> lost{};
    std::string unsynced_since{}; ///< empty: nothing is in doubt
    std::vector<std::string> notes{};
};

/// Says it, and what else there is to know: "attached sbx_…".
void say_outcome(const Outcome& outcome);
void say_outcome(const Acquired& acquired);

/// A verb's work on one sandbox: the document that tells of it, with "id".
using WorkOnOne = std::function<Result<json::Object>(const std::string& ref)>;

/// Does the work for each, also after one has failed. The ids of those that worked are printed, or with
/// --json one document: "sandboxes" (or `plural`), and where something failed "error" (the first) and
/// "errors" (all, with their "ref"). The exit code is that of the first failure.
[[nodiscard]] int for_each_ref(const Common& common, const std::vector<std::string>& refs,
                               const WorkOnOne& work, std::string_view plural = "sandboxes");

/// A time of an option that must be longer than zero, in whole seconds, rounded up.
[[nodiscard]] Result<std::chrono::seconds> parse_seconds(std::string_view option, std::string_view text);
/// The same where "never" is a time, too: that is nothing.
[[nodiscard]] Result<std::optional<std::chrono::seconds>> parse_seconds_or_never(std::string_view option,
                                                                                 std::string_view text);

} // namespace berth::cli
