#include <iostream>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

std::string words(const std::vector<std::string>& list) { return fmt::format("{}", fmt::join(list, " ")); }

void print_bash(const std::vector<VerbShape>& shapes)
{
    std::vector<std::string> names;
    for (const auto& shape : shapes) names.push_back(shape.name);
    std::cout << "_berth() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]}\n"
                 "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
              << fmt::format("        COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n        return\n    fi\n",
                             words(names))
              << "    case $verb in\n";
    for (const auto& shape : shapes)
        std::cout << fmt::format("    {}) COMPREPLY=($(compgen -W '{} {}' -- \"$word\")) ;;\n", shape.name,
                                 words(shape.words), words(shape.options));
    std::cout << "    esac\n}\ncomplete -o default -F _berth berth\n";
}

void print_zsh(const std::vector<VerbShape>& shapes)
{
    std::cout << "#compdef berth\n_berth() {\n    if (( CURRENT == 2 )); then\n        local -a verbs=(\n";
    for (const auto& shape : shapes)
        std::cout << fmt::format("            '{}:{}'\n", shape.name, shape.summary);
    std::cout << "        )\n        _describe verb verbs\n        return\n    fi\n    case $words[2] in\n";
    for (const auto& shape : shapes)
        std::cout << fmt::format("    {}) compadd -- {} {}; _files ;;\n", shape.name, words(shape.words),
                                 words(shape.options));
    std::cout << "    esac\n}\ncompdef _berth berth\n";
}

void print_fish(const std::vector<VerbShape>& shapes)
{
    std::cout << "complete -c berth -n __fish_use_subcommand -f\n";
    for (const auto& shape : shapes) {
        std::cout << fmt::format("complete -c berth -n __fish_use_subcommand -a {} -d '{}'\n", shape.name,
                                 shape.summary);
        for (const auto& word : shape.words)
            std::cout << fmt::format("complete -c berth -n '__fish_seen_subcommand_from {}' -a {}\n",
                                     shape.name, word);
        for (const auto& option : shape.options)
            if (option.starts_with("--"))
                std::cout << fmt::format("complete -c berth -n '__fish_seen_subcommand_from {}' -l {}\n",
                                         shape.name, option.substr(2));
    }
}

} // namespace

int completion_verb(int argc, char** argv)
{
    CLI::App app("Print a completion script.\n\nExample:\n  berth completion bash > "
                 "~/.local/share/bash-completion/completions/berth\n",
                 "berth completion");
    Common common;
    std::string shell;
    app.add_option("SHELL", shell, "bash, zsh or fish")->required();
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto shapes = verb_shapes();
    if (shell == "bash")
        print_bash(shapes);
    else if (shell == "zsh")
        print_zsh(shapes);
    else if (shell == "fish")
        print_fish(shapes);
    else
        return report(
            Error{.code = Code::Invalid,
                  .message = fmt::format("no completion for '{}': bash, zsh or fish", printable(shell, 40))},
            common);
    return 0;
}

} // namespace berth::cli
