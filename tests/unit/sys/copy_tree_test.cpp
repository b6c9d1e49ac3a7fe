#include "sys/copy_tree.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::sys {
namespace {

namespace fs = std::filesystem;

class CopyTree : public ::testing::Test {
protected:
    CopyTree()
    {
        char path[] = "/tmp/berth-copy-XXXXXX";
        EXPECT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        fs::create_directory(dir_ + "/from");
    }
    ~CopyTree() override
    {
        const UniqueFd parent(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        EXPECT_TRUE(remove_tree(parent.get(), fs::path(dir_).filename()));
    }
    Result<TreeCopied> copy() const
    {
        const UniqueFd from(::open((dir_ + "/from").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const UniqueFd to(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        return copy_tree(from.get(), to.get(), "to");
    }
    std::string from(const std::string& name) const { return dir_ + "/from/" + name; }
    std::string to(const std::string& name) const { return dir_ + "/to/" + name; }
    static struct stat look(const std::string& path)
    {
        struct stat st{};
        EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
        return st;
    }
    static std::string text(const std::string& path)
    {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const std::string& name, const std::string& bytes) const
    {
        std::ofstream(from(name)) << bytes;
    }
    std::string dir_;
};

TEST_F(CopyTree, KeepsModesTimesAndLinks)
{
    fs::create_directories(from("a/b"));
    write("a/file", "bytes");
    fs::create_hard_link(from("a/file"), from("a/b/same"));
    fs::create_symlink("/etc/passwd", from("link"));
    ::mkfifo(from("pipe").c_str(), 0640);
    ::chmod(from("a/file").c_str(), 04751);
    ::chmod(from("a").c_str(), 01711);
    const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 5}, {.tv_sec = 2000, .tv_nsec = 7}};
    for (const char* name : {"a/file", "link", "a"})
        ASSERT_EQ(::utimensat(AT_FDCWD, from(name).c_str(), &times[0], AT_SYMLINK_NOFOLLOW), 0);
    const auto copied = copy();
    ASSERT_TRUE(copied) << copied.error().line();
    EXPECT_EQ(copied->files, 3u);
    EXPECT_EQ(copied->bytes, 5u);
    EXPECT_EQ(text(to("a/file")), "bytes");
    EXPECT_EQ(look(to("a/file")).st_mode, look(from("a/file")).st_mode);
    EXPECT_EQ(look(to("a")).st_mode, look(from("a")).st_mode);
    EXPECT_EQ(look(to("a/file")).st_ino, look(to("a/b/same")).st_ino);
    EXPECT_EQ(fs::read_symlink(to("link")), "/etc/passwd");
    EXPECT_TRUE(S_ISFIFO(look(to("pipe")).st_mode));
    for (const char* name : {"a/file", "link", "a"}) {
        EXPECT_EQ(look(to(name)).st_mtim.tv_sec, 2000) << name;
        EXPECT_EQ(look(to(name)).st_mtim.tv_nsec, 7) << name;
    }
}

TEST_F(CopyTree, KeepsHolesAndLargeContents)
{
    write("large", std::string(3'000'000, 'x'));
    write("sparse", "begin");
    ASSERT_EQ(::truncate(from("sparse").c_str(), 64 << 20), 0);
    const UniqueFd file(::open(from("sparse").c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(::pwrite(file.get(), "middle", 6, 32 << 20), 6);
    const auto copied = copy();
    ASSERT_TRUE(copied) << copied.error().line();
    EXPECT_EQ(text(to("large")), text(from("large")));
    EXPECT_EQ(look(to("sparse")).st_size, 64 << 20);
    EXPECT_LT(look(to("sparse")).st_blocks * 512, 1 << 20);
    EXPECT_TRUE(text(to("sparse")) == text(from("sparse")));
}

TEST_F(CopyTree, KeepsAttributesAndWhiteouts)
{
    fs::create_directory(from("opaque"));
    write("file", "x");
    const bool root = ::geteuid() == 0;
    const char* name = root ? "trusted.overlay.opaque" : "user.overlay.opaque";
    if (::setxattr(from("opaque").c_str(), name, "y", 1, 0) != 0)
        GTEST_SKIP() << "no extended attributes here";
    ASSERT_EQ(::setxattr(from("file").c_str(), "user.note", "hello", 5, 0), 0);
    ASSERT_EQ(::mknod(from("whiteout").c_str(), S_IFCHR, ::makedev(0, 0)), 0);
    if (root) {
        ASSERT_EQ(::chown(from("file").c_str(), 1234, 4321), 0);
    }
    ASSERT_TRUE(copy());
    char value[8] = {};
    EXPECT_EQ(::getxattr(to("opaque").c_str(), name, &value[0], sizeof value), 1);
    EXPECT_EQ(value[0], 'y');
    EXPECT_EQ(::getxattr(to("file").c_str(), "user.note", &value[0], sizeof value), 5);
    const auto made = look(to("whiteout"));
    EXPECT_TRUE(S_ISCHR(made.st_mode));
    EXPECT_EQ(made.st_rdev, ::makedev(0, 0));
    EXPECT_EQ(look(to("file")).st_uid, look(from("file")).st_uid);
    EXPECT_EQ(look(to("file")).st_gid, look(from("file")).st_gid);
}

TEST_F(CopyTree, ReadsWhatItsOwnerMayNotAndLeavesItSo)
{
    fs::create_directory(from("closed"));
    write("closed/file", "secret");
    ::chmod(from("closed/file").c_str(), 0);
    ::chmod(from("closed").c_str(), 0);
    const auto copied = copy();
    ASSERT_TRUE(copied) << copied.error().line();
    EXPECT_EQ(look(from("closed")).st_mode & 07777, 0u);
    EXPECT_EQ(look(to("closed")).st_mode & 07777, 0u);
    ::chmod(to("closed").c_str(), 0700);
    EXPECT_EQ(look(to("closed/file")).st_mode & 07777, 0u);
    ::chmod(to("closed/file").c_str(), 0600);
    EXPECT_EQ(text(to("closed/file")), "secret");
    ::chmod(from("closed").c_str(), 0700);
    EXPECT_EQ(look(from("closed/file")).st_mode & 07777, 0u);
}

TEST_F(CopyTree, TakesManyDirectoriesAndRefusesEndlessDepth)
{
    for (int i = 0; i < 300; ++i) {
        fs::create_directories(from(std::to_string(i) + "/below"));
        write(std::to_string(i) + "/below/file", std::to_string(i));
    }
    ASSERT_TRUE(copy());
    for (int i = 0; i < 300; ++i) ASSERT_EQ(text(to(std::to_string(i) + "/below/file")), std::to_string(i));
    fs::remove_all(dir_ + "/to");
    UniqueFd at(::open(from("").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(::mkdirat(at.get(), "d", 0755), 0);
        at.reset(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    const auto deep = copy();
    ASSERT_FALSE(deep);
    EXPECT_EQ(deep.error().code, Code::Exhausted);
}

} // namespace
} // namespace berth::sys
