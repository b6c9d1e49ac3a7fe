// What a command reads: to the byte, once, with an end, at the speed of the reader.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "input";

ExecSpec reading(std::string script)
{
    ExecSpec exec = Context::shell(std::move(script));
    exec.input = ExecSpec::Stdin::Open;
    exec.timeout = 45s;
    return exec;
}

/// Input through `cat`, which must come back as it is.
Check comes_back(std::string name, std::string input, std::string before = {})
{
    const auto run = [=](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        BERTH_TRY(const auto ran, c.run(sandbox, reading(before + "cat"), input));
        BERTH_CHECK(exited(ran, 0));
        return same("what came back", ran.out, input);
    };
    return {kGroup, std::move(name), {}, run};
}

std::string mixed(std::size_t size)
{
    std::string out(size, '\0');
    std::uint32_t state = 12345;
    for (auto& byte : out) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<char>(state >> 24);
    }
    return out;
}

Status none_is_an_end(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("cat; echo ended"));
    return same("a command without input", ran.out, "ended\n");
}

Status refused_where_there_is_none(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("sleep 30");
    BERTH_CHECK(c.start(sandbox, exec));
    const auto written = c.await(c.backend().write_input(sandbox, exec.id, 1, "x"));
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, exec.id))));
    return refused("input for a command that has none", written);
}

Status takes_what_it_can(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("sleep 30");
    BERTH_CHECK(c.start(sandbox, exec));
    std::size_t taken = 0;
    std::size_t last = 1;
    for (std::uint64_t id = 1; id < 200 && last > 0; ++id) {
        BERTH_TRY(last, c.await(c.backend().write_input(sandbox, exec.id, id, std::string(32 << 10, 'x'))));
        taken += last;
    }
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, exec.id))));
    BERTH_CHECK(expect(last == 0, "{} bytes were taken from a command that does not read", taken));
    return expect(taken > 0 && taken <= (4u << 20), "{} bytes were kept for it", taken);
}

Status once(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("cat");
    auto& backend = c.backend();
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto first, c.await(backend.write_input(sandbox, exec.id, 1, "one ")));
    BERTH_TRY(const auto again, c.await(backend.write_input(sandbox, exec.id, 1, "one ")));
    BERTH_TRY([[maybe_unused]] const auto second, c.await(backend.write_input(sandbox, exec.id, 2, "two")));
    BERTH_CHECK(c.await(backend.close_input(sandbox, exec.id, 3)));
    ExecSpec silent = exec;
    silent.input = ExecSpec::Stdin::None; // all of it is written
    BERTH_TRY(const auto ran, c.follow(backend, sandbox, silent));
    BERTH_CHECK(same("bytes taken the first time", first, std::size_t{4}));
    BERTH_CHECK(same("bytes taken the second time", again, std::size_t{4}));
    return same("what it read", ran.out, "one two");
}

Status a_conversation(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("while read -r line; do echo \"heard $line\"; done; echo end");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    std::uint64_t id = 0;
    for (const std::string word : {"one", "two", "three"}) {
        BERTH_TRY([[maybe_unused]] const auto n,
                  c.await(c.backend().write_input(sandbox, exec.id, ++id, word + "\n")));
        BERTH_TRY([[maybe_unused]] const auto said,
                  c.read_until(sandbox, exec.id, "heard " + word + "\n", from));
    }
    BERTH_CHECK(c.await(c.backend().close_input(sandbox, exec.id, ++id)));
    BERTH_TRY([[maybe_unused]] const auto said, c.read_until(sandbox, exec.id, "end\n", from));
    return {};
}

Status another_process_writes_on(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("cat");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY([[maybe_unused]] const auto n, c.await(c.backend().write_input(sandbox, exec.id, 1, "here ")));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY([[maybe_unused]] const auto m, c.await(other->write_input(sandbox, exec.id, 2, "there")));
    BERTH_CHECK(c.await(other->close_input(sandbox, exec.id, 3)));
    std::uint64_t from = 0;
    BERTH_TRY(const auto out, c.read_until(sandbox, exec.id, "here there", from));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    return expect(status.success(), "it ended with {}", to_string(status));
}

Status whoever_stops_reading(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto ran, c.run(sandbox, reading("read -r line; echo $line; exit 8"),
                                    "first\n" + std::string(1 << 20, 'x')));
    BERTH_CHECK(same("what it said", ran.out, "first\n"));
    return exited(ran, 8);
}

Status after_the_end(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("exit 3");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto before, c.ended(sandbox, exec.id));
    BERTH_CHECK(refused("input after the end", c.await(c.backend().write_input(sandbox, exec.id, 1, "x"))));
    BERTH_TRY(const auto after, c.ended(sandbox, exec.id));
    return expect(before == after && after.code() == 3, "its end is now {}", to_string(after));
}

Status after_its_end_was_told(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = reading("cat; sleep 30");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_CHECK(c.await(c.backend().close_input(sandbox, exec.id, 1)));
    const auto written = c.await(c.backend().write_input(sandbox, exec.id, 2, "late"));
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, exec.id))));
    return expect(!written || *written == 0, "input was taken after its end");
}

Status of_an_unknown_exec(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto id = Context::shell("").id;
    BERTH_CHECK(refused("a write", c.await(c.backend().write_input(sandbox, id, 1, "x")), Code::NotFound));
    return refused("a close", c.await(c.backend().close_input(sandbox, id, 1)), Code::NotFound);
}

} // namespace

std::vector<Check> input_checks()
{
    return {
        {kGroup, "a command without input reads an end", {}, none_is_an_end},
        comes_back("an empty input has an end", ""),
        comes_back("a line comes back", "one line\n"),
        comes_back("every byte comes back", mixed(4096)),
        comes_back("eight megabytes come back", mixed(8 << 20)),
        comes_back("a reader that begins late gets all of it", mixed(1 << 20), "sleep 0.3; "),
        {kGroup, "a command that does not read takes no more than a buffer", {}, takes_what_it_can},
        {kGroup, "the same write twice is written once", {}, once},
        {kGroup, "a conversation goes line by line", {}, a_conversation},
        {kGroup, "another process writes on", {}, another_process_writes_on},
        {kGroup, "a command need not read to the end", {}, whoever_stops_reading},
        {kGroup, "a command without input takes none", {}, refused_where_there_is_none},
        {kGroup, "input after the command's end is refused and changes nothing", {}, after_the_end},
        {kGroup, "input after its end is not taken", {}, after_its_end_was_told},
        {kGroup, "an unknown exec takes no input", {}, of_an_unknown_exec},
    };
}

} // namespace berth::conformance
