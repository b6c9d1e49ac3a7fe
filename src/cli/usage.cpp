#include "cli/usage.hpp"

#include <algorithm>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/shell_quoted.hpp"
#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/exec_options.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

using Names = std::vector<std::string>;

bool has(const Names& names, const std::string& one) { return std::ranges::find(names, one) != names.end(); }

/// What people type who know other programs.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"list", "ls"},
    {"ps", "ls"},
    {"delete", "rm"},
    {"remove", "rm"},
    {"destroy", "rm"},
    {"images", "template ls"},
    {"build", "template build"},
};

/// The one of `names` that somebody who wrote `word` may have meant; of verbs also with the word behind it.
std::string meant(std::string_view word, const Names& names)
{
    const auto* const known =
        std::ranges::find(kElsewhere, word, &std::pair<std::string_view, std::string_view>::first);
    if (known != std::end(kElsewhere)) {
        std::string other(known->second);
        if (has(names, other.substr(0, other.find(' ')))) return other;
    }
    return nearest(word, names);
}

/// Other words of the verb that have the option: "berth volume rm".
Names having(const CLI::App& app, const std::string& option)
{
    Names out;
    for (const auto* word : app.get_subcommands([](const CLI::App*) { return true; }))
        if (has(option_names(*word), option))
            out.push_back(fmt::format("{} {}", app.get_name(), word->get_name()));
    return out;
}

/// Not of this app, nor of a word behind it, but the verb has it where it works on this machine: then this
/// is the app of a server.
bool only_here(const CLI::App& app, const std::string& option)
{
    for (const auto& shape : verb_shapes())
        if (app.get_name() == "berth " + shape.name) return has(shape.options, option);
    return false;
}

/// The first word that is no option of the verb, nor of the word behind it; empty: there is none.
std::string unknown_option(const CLI::App& app, int argc, char** argv)
{
    auto names = option_names(app);
    for (const auto* word : app.get_subcommands())
        for (auto& name : option_names(*word)) names.push_back(std::move(name));
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
        const std::string word = std::string(argv[i]).substr(0, std::string_view(argv[i]).find('='));
        if (!word.starts_with("-") || word.size() < 2 || has(names, word)) continue;
        if (!word.starts_with("--") && word.size() > 2) continue;
        if (const auto others = having(app, word); !others.empty())
            return fmt::format("{} is an option of {}", word, fmt::join(others, " and "));
        if (only_here(app, word)) return fmt::format("{} does not work with a server", word);
        // Every letter is one change away from every other: no suggestion for a short option.
        const std::string near = word.size() > 2 ? nearest(word, names) : std::string{};
        return near.empty() ? fmt::format("unknown option {}", printable(word, 80))
                            : fmt::format("unknown option {}, did you mean {}?", printable(word, 80), near);
    }
    return {};
}

/// A word too many; of create it is what the sandbox was to be called.
std::string word_too_many(const CLI::App& app, const std::string& word)
{
    const auto text = fmt::format("unexpected argument '{}'", printable(word, 80));
    if (app.get_name() != "berth create") return text;
    Names ways;
    for (const char* option : {"--name", "--key"})
        if (has(option_names(app), option))
            ways.push_back(fmt::format("{} {}", option, printable(shell_quoted(word), 80)));
    return fmt::format("{}: say {}", text, fmt::join(ways, " or "));
}

/// "berth key" wants a word behind it and has another one, or none.
std::string unknown_word(const CLI::App& app, int argc, char** argv)
{
    Names words;
    for (const auto* one : app.get_subcommands([](const CLI::App*) { return true; }))
        words.push_back(one->get_name());
    const auto all = fmt::format("{}", fmt::join(words, ", "));
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word.starts_with('-')) continue;
        const std::string near = meant(word, words);
        return fmt::format("{} has no '{}'{}", app.get_name(), printable(word, 80),
                           near.empty() ? ": it has " + all : fmt::format(", did you mean {}?", near));
    }
    return fmt::format("{} needs a word more: {}", app.get_name(), all);
}

/// The app, and the word behind it where there is one.
std::vector<const CLI::App*> parts_of(const CLI::App& app, bool parsed)
{
    std::vector<const CLI::App*> out{&app};
    for (const auto* word :
         app.get_subcommands([&](const CLI::App* one) { return !parsed || one->parsed(); }))
        out.push_back(word);
    return out;
}

std::string is_empty(const CLI::App& app, std::string_view option)
{
    return fmt::format("{} is empty: give it a value, or leave it out (see {} --help)", option,
                       app.get_name());
}

} // namespace

std::string empty_word(const CLI::App& app, int argc, char** argv)
{
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
        const std::string_view word = argv[i];
        if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
        const std::string option(word.substr(0, word.size() - 1));
        for (const auto* part : parts_of(app, false))
            if (has(option_names(*part), option)) return is_empty(app, option);
    }
    return {};
}

std::string empty_value(const CLI::App& app)
{
    for (const auto* part : parts_of(app, true))
        for (const auto* option : part->get_options()) {
            const bool positional = option->get_lnames().empty() && option->get_snames().empty();
            if (positional || option->check_lname("note") || option->get_items_expected_max() == 0) continue;
            for (const auto& value : option->results())
                if (value.empty()) return is_empty(app, option->get_name());
        }
    return {};
}

bool asks_json(int argc, char** argv)
{
    for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
        if (std::string_view(argv[i]) == "--json") return true;
    return false;
}

std::optional<int> own_failure(std::string_view verb)
{
    if (verb == "run" || verb == "exec" || verb == "shell" || verb == "input") return kOwnFailure;
    return std::nullopt;
}

std::string unknown_verb(std::string_view word)
{
    if (word.starts_with('-') && word.size() > 1)
        return fmt::format("unknown option {}: options of a verb come behind it, like berth ls --json",
                           printable(word, 80));
    Names names;
    for (const auto& verb : verbs()) names.emplace_back(verb.name);
    const std::string near = meant(word, names);
    return near.empty() ? fmt::format("unknown verb '{}' (see berth --help)", printable(word, 80))
                        : fmt::format("unknown verb '{}', did you mean {}?", printable(word, 80), near);
}

std::string wrong_words(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv)
{
    const auto behind = app.get_subcommands();
    std::string text;
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
        text = unknown_option(app, argc, argv);
        const auto extra = app.remaining(true);
        if (text.empty() && !extra.empty()) text = word_too_many(app, extra.front());
    } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && behind.empty() &&
               app.get_require_subcommand_min() > 0) {
        text = unknown_word(app, argc, argv);
    }
    if (text.empty()) text = printable(error.what(), 400);
    return fmt::format("{} (see {}{}{} --help)", text, app.get_name(), behind.empty() ? "" : " ",
                       behind.empty() ? "" : behind.front()->get_name());
}

} // namespace berth::cli
