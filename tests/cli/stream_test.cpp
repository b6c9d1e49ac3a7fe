// Bytes in, bytes out: exact, separate, in any amount, with every kind of reader and writer.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/unique_fd.hpp"
#include "cli/box.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

std::string every_byte(std::size_t size)
{
    std::string bytes(size, '\0');
    std::uint32_t state = 12345;
    for (auto& byte : bytes) {
        state = state * 1664525 + 1013904223;
        byte = static_cast<char>(state >> 24);
    }
    return bytes;
}

TEST(Stream, KeepsStdoutAndStderrApart)
{
    const auto ended = shell({}, "echo one; echo two >&2; printf three; printf four >&2");
    EXPECT_EQ(ended.out, "one\nthree");
    EXPECT_EQ(ended.err, "two\nfour");
}

TEST(Stream, CanBeOpenedAgainByName)
{
    const auto ended =
        shell({}, "echo one > /dev/stdout; echo two > /dev/stderr; cat /dev/stdin < /dev/null");
    EXPECT_EQ(ended.out, "one\n") << ended.err;
    EXPECT_EQ(ended.err, "two\n");
}

TEST(Stream, PassesBinaryInputToOutput)
{
    const std::string bytes = every_byte(300'000);
    const auto ended = run({.args = {"run", "--", "cat"}, .input = bytes});
    EXPECT_EQ(ended.code, 0);
    EXPECT_TRUE(ended.out == bytes) << ended.out.size() << " bytes came back";
}

TEST(Stream, Passes32MegabytesBothWaysAtOnce)
{
    const std::string bytes = every_byte(32u << 20);
    const auto ended =
        run({.args = {"run", "--", "sh", "-c", "mkfifo /tmp/p; cat /tmp/p >&2 & tee /tmp/p; wait"},
             .input = bytes});
    EXPECT_EQ(ended.code, 0);
    EXPECT_TRUE(ended.out == bytes) << ended.out.size() << " bytes on stdout";
    EXPECT_TRUE(ended.err == bytes) << ended.err.size() << " bytes on stderr";
}

TEST(Stream, TellsTheCommandWhereTheInputEnds)
{
    const auto ended = run({.args = {"run", "--", "wc", "-c"}, .input = std::string(70'000, 'x')});
    EXPECT_EQ(trimmed(ended.out), "70000");
}

TEST(Stream, AnswersWhileTheInputStaysOpen)
{
    Started cat({.args = {"run", "--", "cat"}, .input = ""});
    ASSERT_TRUE(cat.write("first\n"));
    ASSERT_TRUE(cat.wait_for("first\n"));
    ASSERT_TRUE(cat.write("second\n"));
    ASSERT_TRUE(cat.wait_for("second\n"));
    cat.close_input();
    const auto ended = cat.finish();
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, "first\nsecond\n");
}

TEST(Stream, EndsWithTheCommandWhenTheInputStaysOpen)
{
    Started head({.args = {"run", "--", "head", "-n", "1"}, .input = ""});
    ASSERT_TRUE(head.write("line\n"));
    ASSERT_TRUE(head.wait_for("line\n"));
    EXPECT_TRUE(eventually([&] {
        return ::access(("/proc/" + std::to_string(head.pid()) + "/fd/0").c_str(), F_OK) != 0;
    })) << "berth still runs although its command ended";
    EXPECT_EQ(head.finish().code, 0);
}

TEST(Stream, GivesAClosedInputAsAnEmptyOne)
{
    const auto ended = run({.args = {"run", "--", "wc", "-c"}, .in = -2});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(trimmed(ended.out), "0");
}

TEST(Stream, ReadsFromDevNull)
{
    const auto ended = berth({"run", "--", "wc", "-c"});
    EXPECT_EQ(trimmed(ended.out), "0");
}

TEST(Stream, ReadsFromAFile)
{
    const auto path = Place::here().file("input", "bytes of a file\n");
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(run({.args = {"run", "--", "cat"}, .in = file.get()}).out, "bytes of a file\n");
}

TEST(Stream, WritesToAFile)
{
    const auto path = Place::here().file("output", "");
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const auto ended =
        run({.args = {"run", "--", "sh", "-c", "head -c 3000000 /dev/zero"}, .out = file.get()});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(contents(path).size(), 3'000'000u);
}

/// The number of a closed stream is no free one: a file of ours that got it would be written to, and read.
TEST(Stream, AClosedOneIsNotTakenForAnotherFile)
{
    const Box box;
    for (const Words& words :
         {Words{"ls"}, Words{"inspect", box.id()}, Words{"cp", box.id() + ":/etc/hostname", "-"},
          Words{"run", "--", "echo", "x"}, Words{"run", "--json", "--", "echo", "x"},
          box.words({}, {"echo", "x"}), box.words({"--json"}, {"echo", "x"}), Words{"version"}}) {
        const auto ended = run({.args = words, .out = -2});
        EXPECT_NE(ended.code, 0) << words.front();
        EXPECT_THAT(ended.err, testing::AnyOf(testing::HasSubstr("Bad file descriptor"),
                                              testing::HasSubstr("output could not be written")))
            << words.front();
    }
    const auto copied = run({.args = {"cp", "-", box.id() + ":/tmp/copied"}, .in = -2});
    EXPECT_EQ(copied.code, 1);
    EXPECT_THAT(copied.err, testing::HasSubstr("Bad file descriptor"));
}

TEST(Stream, EndsAWriterOfEventsThatNobodyReads)
{
    const Traces before = traces();
    Started yes({.args = {"run", "--json", "--", "yes"}});
    ASSERT_TRUE(yes.wait_for("stdout"));
    yes.close_output();
    EXPECT_EQ(yes.finish().code, 128 + SIGPIPE);
    expect_same(before);
}

TEST(Stream, EndsAWriterWhoseReaderIsGone)
{
    const Traces before = traces();
    Started yes({.args = {"run", "--", "yes"}});
    ASSERT_TRUE(yes.wait_for("y\ny\n"));
    yes.close_output();
    const auto ended = yes.finish();
    EXPECT_EQ(ended.code, 128 + SIGPIPE);
    expect_same(before);
}

TEST(Stream, EndsWhenBothOutputsAreGone)
{
    int ends[2];
    ASSERT_EQ(::pipe2(&ends[0], O_CLOEXEC), 0);
    ::close(ends[0]);
    const UniqueFd dead(ends[1]);
    const auto ended = run({.args = {"run", "--", "sh", "-c", "echo out; echo err >&2; exit 3"},
                            .out = dead.get(),
                            .err = dead.get()});
    EXPECT_NE(ended.code, 125);
    EXPECT_NE(ended.code, -1);
}

TEST(Stream, TimeoutHoldsAgainstAReaderThatDoesNotRead)
{
    int ends[2];
    ASSERT_EQ(::pipe2(&ends[0], O_CLOEXEC), 0);
    const UniqueFd unread(ends[0]);
    const UniqueFd full(ends[1]);
    const auto ended = run({.args = {"run", "--timeout", "500ms", "--", "yes"}, .out = full.get()});
    EXPECT_EQ(ended.code, 124);
    EXPECT_LT(ended.took.count(), 30'000);
}

TEST(Stream, SlowReaderLosesNothing)
{
    Started run({.args = {"run", "--", "sh", "-c", "head -c 4000000 /dev/zero | tr '\\0' a; echo end"}});
    ASSERT_TRUE(run.wait_for("a"));
    // The slowness is the input of this test: every pipe on the way is full when reading goes on.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto ended = run.finish();
    EXPECT_EQ(ended.out.size(), 4'000'004u);
    EXPECT_TRUE(ended.out.ends_with("aend\n"));
}

TEST(Stream, LeavesTheDescriptorsOfItsCallerAsTheyWere)
{
    // O_NONBLOCK is a property of the open file, shared with whoever else holds it.
    int ends[2];
    ASSERT_EQ(::pipe2(&ends[0], O_CLOEXEC), 0);
    const UniqueFd read_end(ends[0]);
    const UniqueFd write_end(ends[1]);
    const int before = ::fcntl(write_end.get(), F_GETFL);
    EXPECT_EQ(run({.args = {"run", "--", "echo", "hi"}, .out = write_end.get()}).code, 0);
    EXPECT_EQ(::fcntl(write_end.get(), F_GETFL), before);
}

TEST(Stream, LogLimitCutsWhatIsPassedOn)
{
    const auto ended = shell({"--log-limit", "1000B"}, "head -c 50000 /dev/zero; echo $? >&2");
    EXPECT_EQ(ended.code, 0);
    EXPECT_LE(ended.out.size(), 1000u);
}

} // namespace
} // namespace berth::test
