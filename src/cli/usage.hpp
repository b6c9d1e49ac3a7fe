#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace CLI {
class App;
class ParseError;
} // namespace CLI

/// Command lines that are wrong, and what is said about them.
namespace berth::cli {

/// --json may stand anywhere before "--", also on a line that cannot be parsed.
[[nodiscard]] bool asks_json(int argc, char** argv);

/// What a failure of ours exits with where the exit code is otherwise the command's; of other verbs nothing.
[[nodiscard]] std::optional<int> own_failure(std::string_view verb);

/// "unknown verb 'doctr', did you mean doctor?"
[[nodiscard]] std::string unknown_verb(std::string_view word);

/// What is wrong with the words of a verb, and where its help is.
[[nodiscard]] std::string wrong_words(const CLI::App& app, const CLI::ParseError& error, int argc,
                                      char** argv);

} // namespace berth::cli
