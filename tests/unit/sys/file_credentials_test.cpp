#include "sys/file_credentials.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "temp_dir.hpp"

namespace berth::sys {
namespace {

/// What the kernel judges a thread by.
struct Rights {
    std::array<std::uint32_t, 2> effective{};
    int fs_uid = 0;
    int fs_gid = 0;
    std::vector<gid_t> groups;
    bool operator==(const Rights&) const = default;
};

Rights rights()
{
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2] = {};
    EXPECT_EQ(::syscall(SYS_capget, &header, &data[0]), 0);
    Rights out;
    out.effective = {data[0].effective, data[1].effective};
    out.fs_uid = static_cast<int>(::syscall(SYS_setfsuid, -1));
    out.fs_gid = static_cast<int>(::syscall(SYS_setfsgid, -1));
    out.groups.resize(static_cast<std::size_t>(::getgroups(0, nullptr)));
    EXPECT_GE(::getgroups(static_cast<int>(out.groups.size()), out.groups.data()), 0);
    return out;
}

FileCredentials somebody()
{
    if (::geteuid() != 0) return {.uid = ::geteuid(), .gid = ::getegid()};
    return {.uid = 1'879'048'192u, .gid = 1'879'048'193u};
}

/// On a thread of its own: what it keeps of this, the program does not.
template <class F> void on_a_thread(F work) { std::thread(work).join(); }

TEST(ActAs, HasTheIdsAndNothingElse)
{
    on_a_thread([] {
        const auto ids = somebody();
        Rights seen;
        ASSERT_TRUE(act_as(ids, [&] { seen = rights(); }));
        EXPECT_EQ(seen.fs_uid, static_cast<int>(ids.uid));
        EXPECT_EQ(seen.fs_gid, static_cast<int>(ids.gid));
        EXPECT_EQ(seen.effective, (std::array<std::uint32_t, 2>{}));
        if (::geteuid() == 0) EXPECT_TRUE(seen.groups.empty());
    });
}

TEST(ActAs, ComesBackWithEverything)
{
    on_a_thread([] {
        const auto before = rights();
        const int dumpable = ::prctl(PR_GET_DUMPABLE);
        EXPECT_TRUE(act_as(somebody(), [] {}));
        EXPECT_EQ(rights(), before);
        EXPECT_EQ(::prctl(PR_GET_DUMPABLE), dumpable);
        EXPECT_THROW((void)act_as(somebody(), [] { throw std::runtime_error("in the middle"); }),
                     std::runtime_error);
        EXPECT_EQ(rights(), before);
        EXPECT_EQ(::prctl(PR_GET_DUMPABLE), dumpable);
    });
}

TEST(ActAs, InTheMiddleOfAnotherItIsTheInnerOneAndThenTheOuter)
{
    on_a_thread([] {
        const auto before = rights();
        auto inner = somebody();
        if (::geteuid() == 0) inner.uid = inner.gid = 65534;
        Rights seen[3];
        ASSERT_TRUE(act_as(somebody(), [&] {
            seen[0] = rights();
            ASSERT_TRUE(act_as(inner, [&] { seen[1] = rights(); }));
            seen[2] = rights();
        }));
        EXPECT_EQ(seen[1].fs_uid, static_cast<int>(inner.uid));
        EXPECT_EQ(seen[2], seen[0]);
        EXPECT_EQ(rights(), before);
    });
}

TEST(ActAs, WhatIsMadeBelongsToTheIdsWithTheModeAskedFor)
{
    on_a_thread([] {
        const TempDir dir;
        ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
        const std::string path = dir / "made";
        ASSERT_TRUE(act_as(somebody(), [&] { EXPECT_EQ(::mkdir(path.c_str(), 0775), 0); }));
        struct stat st{};
        ASSERT_EQ(::stat(path.c_str(), &st), 0);
        EXPECT_EQ(st.st_uid, somebody().uid);
        EXPECT_EQ(st.st_gid, somebody().gid);
        EXPECT_EQ(st.st_mode & 0777, 0775u);
    });
}

TEST(ActAs, OtherThreadsKeepWhatTheyHave)
{
    const auto before = rights();
    on_a_thread([&] { ASSERT_TRUE(act_as(somebody(), [&] { on_a_thread([] {}); })); });
    EXPECT_EQ(rights(), before);
    const mode_t mask = ::umask(022);
    ::umask(mask);
    EXPECT_NE(mask, 0u) << "the umask of the program was changed";
}

TEST(ActAs, RootsOwnFilesAreClosedToIt)
{
    if (::geteuid() != 0) GTEST_SKIP() << "an ordinary user acts as himself; run as root: sudo ./dev test";
    on_a_thread([] {
        const TempDir dir;
        dir.write("secret", "root's", 0600);
        ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
        const std::string path = dir / "secret";
        const auto read = result_as(somebody(), [&]() -> Result<bool> {
            FILE* const file = ::fopen(path.c_str(), "r");
            if (file != nullptr) ::fclose(file);
            return file != nullptr;
        });
        ASSERT_TRUE(read);
        EXPECT_FALSE(*read);
        FILE* const file = ::fopen(path.c_str(), "r");
        EXPECT_NE(file, nullptr);
        if (file != nullptr) ::fclose(file);
    });
}

} // namespace
} // namespace berth::sys
