#include "scripted/command.hpp"

#include <cstdio>

#include <gtest/gtest.h>

#include "scripted/files.hpp"

namespace berth::scripted {
namespace {

using namespace std::string_literals;

/// What a shell makes of an escaped argument.
std::string through_shell(const std::string& bytes)
{
    const std::string command = "sh -c 'printf %b. \"$1\"' x '" + escape(bytes) + "'";
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    char piece[4096];
    for (std::size_t n; (n = ::fread(&piece[0], 1, sizeof piece, pipe)) > 0;) out.append(&piece[0], n);
    ::pclose(pipe);
    EXPECT_TRUE(out.ends_with('.'));
    return out.substr(0, out.size() - 1);
}

TEST(Escape, BringsEveryByteThroughAShell)
{
    std::string all;
    for (int i = 1; i < 256; ++i)
        if (i != '\'') all += static_cast<char>(i); // the quotes of this test's own command
    EXPECT_EQ(through_shell(all), all);
    EXPECT_EQ(through_shell("a\\0101%s\\n\n"), "a\\0101%s\\n\n");
    EXPECT_EQ(through_shell(""), "");
}

TEST(Words, AreWhatTheKernelSaid)
{
    EXPECT_EQ(error_of_words("cat: /x: No such file or directory\n", "/x").code, Code::NotFound);
    EXPECT_EQ(error_of_words("sh: 3: cannot create /x: Permission denied", "/x").code, Code::Denied);
    EXPECT_EQ(error_of_words("mkdir: cannot create directory 'x': File exists", "x").code, Code::Conflict);
    EXPECT_EQ(error_of_words("something new", "x").code, Code::Internal);
}

TEST(Entries, AreReadToTheByte)
{
    std::string text;
    for (const char* field : {"a\nb", "l", "3", "4755", "1700000000.5000000000", "../x", "0", "65534"})
        text += field + "\0"s;
    const auto one = parse_entries(text);
    ASSERT_TRUE(one) << one.error().line();
    ASSERT_EQ(one->size(), 1u);
    EXPECT_EQ(one->front().name, "a\nb");
    EXPECT_EQ(one->front().kind, FileEntry::Kind::Symlink);
    EXPECT_EQ(one->front().mode, 04755u);
    EXPECT_EQ(one->front().target, "../x");
    EXPECT_EQ(one->front().modified.time_since_epoch().count(), 1'700'000'000'500'000'000);
    EXPECT_FALSE(parse_entries(text + "more"));
    EXPECT_FALSE(parse_entries("x\0f\0-3\0"s));
    EXPECT_TRUE(parse_entries("")->empty());
}

} // namespace
} // namespace berth::scripted
