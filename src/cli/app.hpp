#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace berth::cli {

/// What every verb understands.
struct Common {
    bool json = false;
    std::string data;
    std::string log_level;
    std::string log_format = "text";
    std::string color = "auto";
};

/// Adds the common options, in a group of their own.
void add_common(CLI::App& app, Common& common);

/// Parses; prints help or a one-line error with the nearest option. An exit code means: we are done.
[[nodiscard]] std::optional<int> parse(CLI::App& app, Common& common, int argc, char** argv,
                                       int usage_code = 2);

/// The state directory by --data, BERTH_DATA or the usual place.
[[nodiscard]] Result<std::string> state_path(const Common& common);

/// Tells an error on stderr (or as a document on stdout with --json) and answers the exit code.
int report(const Error& error, const Common& common, std::optional<int> exit = std::nullopt);

/// One line on stderr: "berth: …".
void say(std::string_view line);

/// True when progress and hints may be shown: stderr is a terminal.
[[nodiscard]] bool talkative();

/// The options of a verb by name, for suggestions and completion.
[[nodiscard]] std::vector<std::string> option_names(const CLI::App& app);

/// The words and options of each verb, gathered by building its app without running it.
struct VerbShape {
    std::string name;
    std::string summary;
    std::vector<std::string> words;
    std::vector<std::string> options;
};
[[nodiscard]] std::vector<VerbShape> verb_shapes();

/// Called by each verb before parsing; when shapes are being gathered it takes the app and asks
/// the verb to return.
[[nodiscard]] bool gathering(const CLI::App& app);

} // namespace berth::cli
