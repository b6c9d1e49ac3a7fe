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

/// What is wrong with an option that has an empty value: a variable that is not set here, mostly. It would
/// ask for nothing, and what it was to hold would be left out in silence. Empty: there is none.
[[nodiscard]] std::string empty_word(const CLI::App& app, int argc, char** argv);
/// The same of words that are parsed.
[[nodiscard]] std::string empty_value(const CLI::App& app);

} // namespace berth::cli
