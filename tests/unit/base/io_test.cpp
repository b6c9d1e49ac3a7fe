#include "base/io.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class IoTest : public ::testing::Test {
protected:
    IoTest()
    {
        char path[] = "/tmp/berth-io-XXXXXX";
        if (::mkdtemp(&path[0]) == nullptr) throw std::runtime_error("mkdtemp");
        path_ = &path[0];
        dir_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    ~IoTest() override { std::filesystem::remove_all(path_); }

    [[nodiscard]] std::set<std::string> names() const
    {
        std::set<std::string> out;
        for (const auto& entry : std::filesystem::directory_iterator(path_))
            out.insert(entry.path().filename());
        return out;
    }

    std::string path_;
    UniqueFd dir_;
};

TEST_F(IoTest, ReplacesAFileWhole)
{
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "first, and longer"));
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "second"));
    EXPECT_EQ(*read_file_at(dir_.get(), "f"), "second");
    EXPECT_THAT(names(), ElementsAre("f"));
    struct stat st{};
    ASSERT_EQ(::stat((path_ + "/f").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST_F(IoTest, WhoReadsWhileItIsReplacedSeesOneOfTheTwo)
{
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "old"));
    const UniqueFd reader(::openat(dir_.get(), "f", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "new"));
    EXPECT_EQ(*read_to_end(reader.get(), 1_MiB, "f"), "old") << "the old file itself is never written to";
}

TEST_F(IoTest, KeepsTheOldFileWhenTheNewOneCannotBeWritten)
{
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "old"));
    // In a child, because a limit on the size of files is the process's.
    const pid_t pid = ::fork();
    if (pid == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit small{.rlim_cur = 4, .rlim_max = 4};
        if (::setrlimit(RLIMIT_FSIZE, &small) != 0) ::_exit(2);
        const auto replaced = replace_file_at(dir_.get(), "f", "more than four bytes");
        ::_exit(replaced ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(*read_file_at(dir_.get(), "f"), "old");
    EXPECT_THAT(names(), ElementsAre("f")) << "and the unfinished one is gone";
}

TEST_F(IoTest, GoesOnAfterACrashThatLeftATemporary)
{
    const UniqueFd left(::openat(dir_.get(), "f.new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(write_all(left.get(), "half of a very long tex"));
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "whole"));
    EXPECT_EQ(*read_file_at(dir_.get(), "f"), "whole");
    EXPECT_THAT(names(), ElementsAre("f"));
}

TEST_F(IoTest, DoesNotWriteThroughALinkAtTheTemporary)
{
    ASSERT_TRUE(replace_file_at(dir_.get(), "victim", "safe"));
    ASSERT_EQ(::symlinkat("victim", dir_.get(), "f.new"), 0);
    EXPECT_FALSE(replace_file_at(dir_.get(), "f", "bad"));
    EXPECT_EQ(*read_file_at(dir_.get(), "victim"), "safe");
}

TEST_F(IoTest, ReadsNoMoreThanTheLimit)
{
    ASSERT_TRUE(replace_file_at(dir_.get(), "f", "12345"));
    EXPECT_EQ(*read_file_at(dir_.get(), "f", Bytes{5}), "12345");
    const auto larger = read_file_at(dir_.get(), "f", Bytes{4});
    ASSERT_FALSE(larger);
    EXPECT_EQ(larger.error().code, Code::Invalid);
    EXPECT_THAT(larger.error().message, HasSubstr("f is larger than 4 bytes"));
    EXPECT_FALSE(read_file("/dev/zero", 1_MiB)) << "and of an endless one";
}

TEST_F(IoTest, NamesAFileThatIsNotThere)
{
    const auto missing = read_file(path_ + "/none");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::NotFound);
    EXPECT_THAT(missing.error().message, HasSubstr(path_ + "/none"));
}

TEST_F(IoTest, WritesAllOfItThroughAFullPipe)
{
    int ends[2];
    ASSERT_EQ(::pipe2(&ends[0], O_CLOEXEC), 0);
    const UniqueFd read(ends[0]);
    UniqueFd write(ends[1]);
    const std::string bytes(1'000'000, 'x');
    std::thread writer([&] {
        EXPECT_TRUE(write_all(write.get(), bytes));
        write.reset();
    });
    const auto got = read_to_end(read.get(), 2_MiB, "a pipe");
    writer.join();
    EXPECT_EQ(*got, bytes);
}

TEST_F(IoTest, MakesDirectoriesAndOpensThemWithoutFollowing)
{
    ASSERT_TRUE(make_dirs(path_ + "/a/b/c", 0700));
    ASSERT_TRUE(make_dirs(path_ + "/a/b/c", 0700)) << "again is as good";
    EXPECT_TRUE(open_dir(path_ + "/a/b/c"));
    ASSERT_EQ(::symlink("a", (path_ + "/link").c_str()), 0);
    EXPECT_FALSE(open_dir(path_ + "/link"));
}

} // namespace
} // namespace berth
