#include "cli/dockerfile.hpp"

#include <algorithm>
#include <utility>

#include "base/json_reader.hpp"
#include "base/shell_quoted.hpp"
#include "base/strings.hpp"

namespace berth::cli {

namespace {

constexpr std::size_t kMostSteps = 500;

struct Instruction {
    std::string name; ///< in upper case
    std::string rest;
    std::size_t line = 0;
};

std::string_view trimmed(std::string_view text)
{
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string upper(std::string_view text)
{
    std::string out(text);
    for (char& c : out)
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    return out;
}

std::unexpected<Error> refuse(std::size_t line, std::string_view why)
{
    return fail(Code::Invalid, "line {}: {}", line, why);
}

/// Lines that end in a backslash go on; comments in between do not end them.
Result<std::vector<Instruction>> instructions(std::string_view text)
{
    std::vector<Instruction> out;
    std::string whole;
    std::size_t begun = 0, number = 0;
    for (const auto& raw : split(text, '\n')) {
        ++number;
        auto line = trimmed(raw);
        if (line.starts_with('#') || line.empty()) {
            if (line.starts_with('#') && upper(line).find("ESCAPE=`") != std::string::npos)
                return refuse(number, "another escape character than '\\' is not understood");
            continue;
        }
        if (whole.empty()) begun = number;
        const bool more = line.ends_with('\\');
        if (more) line.remove_suffix(1);
        whole += line;
        if (more) {
            whole += ' ';
            continue;
        }
        const auto space = whole.find_first_of(" \t");
        Instruction one{.name = upper(whole.substr(0, space)),
                        .rest = space == std::string::npos ? "" : std::string(trimmed(whole.substr(space))),
                        .line = begun};
        if (one.rest.empty()) return refuse(begun, printable(one.name, 30) + " without anything to do");
        out.push_back(std::move(one));
        whole.clear();
    }
    if (!whole.empty()) return refuse(begun, "the file ends where a line should go on");
    return out;
}

/// Words, as a shell without variables has them.
Result<std::vector<std::string>> words_of(const Instruction& from, std::string_view text)
{
    std::vector<std::string> out;
    std::string word;
    bool in_word = false;
    char quote = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
            word += text[++i];
            in_word = true;
        } else if (quote != 0) {
            if (c == quote)
                quote = 0;
            else
                word += c;
        } else if (c == '"' || c == '\'') {
            quote = c;
            in_word = true;
        } else if (c == ' ' || c == '\t') {
            if (in_word) out.push_back(std::exchange(word, {}));
            in_word = false;
        } else {
            word += c;
            in_word = true;
        }
    }
    if (quote != 0) return refuse(from.line, "a quote that is never closed");
    if (in_word) out.push_back(std::move(word));
    return out;
}

/// The shell form as it stands; the form of a list as words for a shell.
Result<std::string> command_of(const Instruction& from)
{
    if (from.rest.find("<<") != std::string::npos && from.name == "RUN" &&
        from.rest.find("<<") == from.rest.find_first_not_of(" \t"))
        return refuse(from.line, "text that follows in further lines (<<) is not understood");
    if (!from.rest.starts_with('[')) return from.rest;
    const auto document = json::parse(from.rest);
    if (!document) return from.rest; // a command may begin with a bracket, too
    const auto list = json::Reader(*document).strings();
    if (!list) return refuse(from.line, "a list of words was expected");
    std::vector<std::string> quoted;
    for (const auto& word : *list) quoted.push_back(shell_quoted(word));
    return fmt::format("{}", fmt::join(quoted, " "));
}

Status no_variables(const Instruction& from, std::string_view text)
{
    if (text.find('$') == std::string_view::npos) return {};
    return refuse(from.line, from.name + " with a variable: write its value");
}

Result<DockerStep> copy_of(const Instruction& from)
{
    DockerStep out{.kind = DockerStep::Kind::Copy, .line = from.line};
    BERTH_CHECK(no_variables(from, from.rest));
    std::vector<std::string> words;
    if (from.rest.starts_with('[')) {
        BERTH_TRY(const auto document, json::parse(from.rest));
        BERTH_TRY(words, json::Reader(document).strings());
    } else {
        BERTH_TRY(words, words_of(from, from.rest));
    }
    while (!words.empty() && words.front().starts_with("--")) {
        const auto& option = words.front();
        const auto equals = option.find('=');
        const auto name = option.substr(0, equals);
        const auto value = equals == std::string::npos ? "" : option.substr(equals + 1);
        if (name == "--chown")
            out.owner = value;
        else if (name == "--chmod")
            out.mode = value;
        else
            return refuse(from.line, fmt::format("{} {} is not understood", from.name, printable(name, 40)));
        words.erase(words.begin());
    }
    if (words.size() < 2) return refuse(from.line, from.name + " needs a source and a destination");
    out.destination = words.back();
    words.pop_back();
    for (const auto& source : words)
        if (source.find("://") != std::string::npos || source.starts_with("git@"))
            return refuse(from.line, "files from other machines are not fetched");
    if (words.size() > 1 && !out.destination.ends_with('/')) out.destination += '/';
    out.sources = std::move(words);
    return out;
}

Result<DockerStep> env_of(const Instruction& from)
{
    DockerStep out{.kind = DockerStep::Kind::Env, .line = from.line};
    const auto first = from.rest.substr(0, from.rest.find_first_of(" \t"));
    if (from.name == "ENV" && first.find('=') == std::string::npos) {
        // The old form: all that follows the name.
        if (first.size() == from.rest.size()) return refuse(from.line, "ENV without a value");
        out.args = {first, std::string(trimmed(from.rest.substr(first.size())))};
        return out;
    }
    BERTH_TRY(const auto words, words_of(from, from.rest));
    for (const auto& word : words) {
        const auto equals = word.find('=');
        if (equals == 0 || (equals == std::string::npos && from.name == "ENV"))
            return refuse(from.line, from.name + " needs NAME=value");
        out.args.push_back(word.substr(0, equals));
        out.args.push_back(equals == std::string::npos ? "" : word.substr(equals + 1));
    }
    return out;
}

} // namespace

Result<Dockerfile> parse_dockerfile(std::string_view text)
{
    if (text.find('\0') != std::string_view::npos) return fail(Code::Invalid, "this is no Dockerfile");
    BERTH_TRY(const auto all, instructions(text));
    Dockerfile out;
    std::string entry, command;
    for (const auto& one : all) {
        if (one.name == "FROM") {
            if (!out.from.empty()) return refuse(one.line, "a template has one stage, and so one FROM");
            BERTH_TRY(const auto words, words_of(one, one.rest));
            BERTH_CHECK(no_variables(one, one.rest));
            if (words.front().starts_with("--"))
                return refuse(one.line, printable(words.front(), 40) + " is not understood");
            out.from = words.front();
            continue;
        }
        if (out.from.empty() && one.name == "ARG") continue; // for FROM alone, which takes no variables
        if (out.from.empty()) return refuse(one.line, "a Dockerfile begins with FROM");
        if (one.name == "RUN") {
            if (one.rest.starts_with("--")) return refuse(one.line, "options of RUN are not understood");
            BERTH_TRY(auto what, command_of(one));
            out.steps.push_back({.kind = DockerStep::Kind::Run, .args = {std::move(what)}, .line = one.line});
        } else if (one.name == "COPY" || one.name == "ADD") {
            BERTH_TRY(auto step, copy_of(one));
            out.steps.push_back(std::move(step));
        } else if (one.name == "ENV" || one.name == "ARG") {
            BERTH_TRY(auto step, env_of(one));
            out.steps.push_back(std::move(step));
        } else if (one.name == "WORKDIR" || one.name == "USER") {
            BERTH_CHECK(no_variables(one, one.rest));
            BERTH_TRY(auto words, words_of(one, one.rest));
            if (words.size() != 1) return refuse(one.line, one.name + " needs one word");
            const bool user = one.name == "USER";
            out.steps.push_back({.kind = user ? DockerStep::Kind::User : DockerStep::Kind::Workdir,
                                 .args = std::move(words),
                                 .line = one.line});
        } else if (one.name == "ENTRYPOINT") {
            BERTH_TRY(entry, command_of(one));
        } else if (one.name == "CMD") {
            BERTH_TRY(command, command_of(one));
        } else if (one.name == "EXPOSE" || one.name == "LABEL" || one.name == "MAINTAINER" ||
                   one.name == "STOPSIGNAL") {
            out.skipped.push_back(fmt::format("line {}: {}", one.line, one.name));
        } else {
            return refuse(one.line, printable(one.name, 30) + " is nothing a template has");
        }
        if (out.steps.size() > kMostSteps)
            return refuse(one.line, fmt::format("more than {} steps", kMostSteps));
    }
    if (out.from.empty()) return fail(Code::Invalid, "a Dockerfile begins with FROM");
    out.start = entry.empty() ? command : command.empty() ? entry : entry + " " + command;
    return out;
}

} // namespace berth::cli
