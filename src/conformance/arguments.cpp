// What a command is started with arrives byte for byte: nothing quotes, splits, expands or cuts it.

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "arguments";

/// The arguments of a shell, told between marks by the shell itself.
Check arrives(std::string name, std::vector<std::string> arguments)
{
    const auto run = [arguments = std::move(arguments)](Context& c) -> Status {
        std::vector<std::string> argv{"/bin/sh", "-c", "printf '<%s>' \"$@\"", "sh"};
        std::string want;
        for (const auto& argument : arguments) {
            argv.push_back(argument);
            want += "<" + argument + ">";
        }
        BERTH_TRY(const auto sandbox, c.shared());
        BERTH_TRY(const auto ran, c.run(sandbox, Context::command(std::move(argv))));
        BERTH_CHECK(exited(ran, 0));
        return same("what the command was given", ran.out, want);
    };
    return {kGroup, std::move(name), {}, run};
}

Check is_refused(std::string name, std::vector<std::string> argv)
{
    const auto run = [argv = std::move(argv)](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        return refused("the command", c.await(c.backend().exec(sandbox, Context::command(argv))),
                       Code::Invalid);
    };
    return {kGroup, std::move(name), {}, run};
}

} // namespace

std::vector<Check> argument_checks()
{
    return {
        arrives("an argument with spaces stays one", {"a b", "  c  "}),
        arrives("quotes arrive as they are", {"it's", "\"double\"", "'"}),
        arrives("a newline is part of an argument", {"one\ntwo", "end\n"}),
        arrives("an empty argument is an argument", {"", "x", ""}),
        arrives("characters of many languages arrive", {"grüße", "日本語", "🚀 naïve"}),
        arrives("nothing is expanded", {"$HOME", "`id`", "*", "~", "a;b|c&d>e", "$(id)", "{1,2}", "!x"}),
        arrives("backslashes arrive as they are", {"\\", "a\\nb", "\\\\", "C:\\x"}),
        arrives("what looks like an option is an argument", {"-n", "--", "-", "--help"}),
        arrives("control characters arrive", {"\t", "\r\n", "\x1b[31m", "\x01\x7f"}),
        arrives("bytes that are no UTF-8 arrive", {"\xff\xfe", "a\x80z", "\xc3"}),
        arrives("a thousand arguments arrive in order",
                [] {
                    std::vector<std::string> many;
                    for (int i = 0; i < 1000; ++i) many.push_back(fmt::format("argument {}", i));
                    return many;
                }()),
        arrives("an argument of 100 KiB arrives", {std::string(100 * 1024, 'x') + "end"}),
        arrives("a megabyte in all arrives", std::vector<std::string>(16, std::string(64 * 1024, 'y'))),
        {kGroup,
         "a command without a slash is looked for in PATH",
         {},
         [](Context& c) -> Status {
             BERTH_TRY(const auto sandbox, c.shared());
             BERTH_TRY(const auto ran, c.run(sandbox, Context::command({"sh", "-c", "echo found"})));
             return same("its output", ran.out, "found\n");
         }},
        is_refused("an empty command is invalid", {}),
        is_refused("a NUL in an argument is invalid", {"/bin/sh", std::string("a\0b", 3)}),
        is_refused("an argument no kernel takes is invalid", {"/bin/sh", std::string(256 * 1024, 'x')}),
    };
}

} // namespace berth::conformance
