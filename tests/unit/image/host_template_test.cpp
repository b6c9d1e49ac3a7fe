#include "image/host_template.hpp"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io.hpp"
#include "unit/image/forked.hpp"
#include "unit/image/names_in.hpp"
#include "unit/sys/temp_dir.hpp"

namespace berth::image {
namespace {

using sys::TempDir;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

/// A machine of a few files, some of them nobody's business.
struct FakeHost {
    FakeHost()
    {
        for (const char* path :
             {"host", "host/usr", "host/usr/bin", "host/usr/lib", "host/usr/share", "host/usr/share/app",
              "host/etc", "host/etc/ssl", "host/etc/ssl/certs", "host/etc/ssl/private", "host/etc/vim",
              "host/etc/profile.d", "host/etc/alternatives"})
            dir.make_dir(path);
        for (const char* path : {"host/usr/bin/sh", "host/usr/bin/bash"}) dir.write(path, "#!", 0755);
        dir.link("usr/bin", "host/bin");
        dir.link("/usr/lib", "host/lib");
        dir.write("host/etc/passwd", "alice:x:1001:1001::/home/alice:/bin/sh\n");
        dir.write("host/etc/shadow", "alice:secret", 0600);
        dir.write("host/etc/profile", "profile");
        dir.write("host/etc/gitconfig", "token");
        dir.write("host/etc/ssl/certs/ca.crt", "certificate");
        dir.write("host/etc/ssl/private/key", "secret", 0600);
        dir.write("host/etc/vim/open", "open");
        dir.write("host/etc/vim/closed", "secret", 0640);
        dir.link("/etc/shadow", "host/etc/alternatives/trap");
    }
    [[nodiscard]] Result<HostTemplate> ensure(const Progress& progress = {}) const
    {
        return ensure_host_template(dir / "cache", progress, dir / "host");
    }

    TempDir dir;
};

struct stat stat_of(const std::string& path)
{
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) ADD_FAILURE() << "no " << path;
    return st;
}

std::string link_of(const std::string& path)
{
    char buffer[4096];
    const ssize_t n = ::readlink(path.c_str(), buffer, sizeof buffer);
    return n < 0 ? "(no link)" : std::string(buffer, static_cast<std::size_t>(n));
}

TEST(HostTemplate, HasWhatAProgramExpectsOfARoot)
{
    const FakeHost host;
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    const std::string root = made->skeleton;
    EXPECT_EQ(root, made->dir + "/skeleton");
    EXPECT_EQ(link_of(root + "/bin"), "usr/bin");
    EXPECT_EQ(link_of(root + "/lib"), "usr/lib") << "an absolute link becomes a relative one";
    EXPECT_THAT(names_in(root + "/usr"), IsEmpty());
    EXPECT_EQ(stat_of(root).st_mode, S_IFDIR | 0755u);
    EXPECT_EQ(stat_of(root + "/tmp").st_mode, S_IFDIR | 01777u);
    EXPECT_EQ(stat_of(root + "/root").st_mode, S_IFDIR | 0700u);
    EXPECT_EQ(stat_of(root + "/home/user/.bashrc").st_mode, S_IFREG | 0644u);
    EXPECT_EQ(stat_of(root + "/etc/machine-id").st_size, 0);
    EXPECT_THAT(*read_file(root + "/etc/passwd"), HasSubstr("user:x:1000:1000:user:/home/user:/bin/bash\n"));
    EXPECT_EQ(stat_of(made->dir).st_mode, S_IFDIR | 0700u);
}

TEST(HostTemplate, IsTheSameWhateverTheUmask)
{
    const FakeHost host;
    const int status = wait_for(start_child([&] {
        ::umask(0077);
        return host.ensure().has_value();
    }));
    ASSERT_EQ(status, 0);
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(stat_of(made->skeleton + "/etc").st_mode, S_IFDIR | 0755u);
    EXPECT_EQ(stat_of(made->skeleton + "/etc/hosts").st_mode, S_IFREG | 0644u);
    EXPECT_EQ(stat_of(made->skeleton + "/etc/ssl/certs").st_mode, S_IFDIR | 0755u);
}

TEST(HostTemplate, ShowsOfEtcOnlyWhatIsListedAndEverybodyMayRead)
{
    const FakeHost host;
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    const std::string etc = made->skeleton + "/etc";
    EXPECT_EQ(read_file(etc + "/profile"), "profile");
    EXPECT_EQ(read_file(etc + "/ssl/certs/ca.crt"), "certificate");
    EXPECT_THAT(names_in(etc + "/vim"), ElementsAre("open"));
    EXPECT_THAT(names_in(etc + "/ssl"), ElementsAre("certs"));
    EXPECT_EQ(link_of(etc + "/alternatives/trap"), "/etc/shadow") << "a link is copied, not what it names";
    for (const char* name : {"shadow", "gitconfig", "profile.d"})
        EXPECT_THAT(names_in(etc), Not(Contains(name)));
    EXPECT_THAT(*read_file(etc + "/passwd"), Not(HasSubstr("alice")));
}

TEST(HostTemplate, OfRootCarriesTheSandboxsIdsAndDevices)
{
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: sudo unit_image --gtest_filter=HostTemplate.*";
    const FakeHost host;
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(made->ids, Ids::Sandbox);
    EXPECT_EQ(stat_of(made->skeleton + "/home/user").st_uid, 1000u);
    EXPECT_EQ(stat_of(made->skeleton + "/home/user/.profile").st_gid, 1000u);
    EXPECT_EQ(stat_of(made->skeleton + "/etc/hosts").st_uid, 0u);
    if (!made->devices) GTEST_SKIP() << "this root may not make device nodes (CAP_MKNOD)";
    const auto null = stat_of(made->skeleton + "/dev/null");
    EXPECT_EQ(null.st_mode, S_IFCHR | 0666u);
    EXPECT_EQ(null.st_rdev, makedev(1, 3));
    EXPECT_EQ(link_of(made->skeleton + "/dev/ptmx"), "pts/ptmx");
}

TEST(HostTemplate, OfAnOrdinaryUserHasNoDevicesAndNoMask)
{
    if (::geteuid() == 0)
        GTEST_SKIP() << "needs an ordinary user: setpriv --reuid=1000 --regid=1000 --clear-groups unit_image";
    const FakeHost host;
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(made->ids, Ids::Maker);
    EXPECT_FALSE(made->devices);
    EXPECT_THAT(names_in(made->skeleton + "/dev"), IsEmpty());
    EXPECT_EQ(made->usr_mask, "");
    EXPECT_EQ(stat_of(made->skeleton + "/home/user").st_uid, ::geteuid());
}

TEST(HostTemplate, HidesBelowUsrWhatOthersMayNotRead)
{
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: sudo unit_image --gtest_filter=HostTemplate.*";
    const FakeHost host;
    host.dir.write("host/usr/share/app/key", "secret", 0640);
    host.dir.write("host/usr/share/app/open", "open", 0644);
    host.dir.write("host/usr/bin/suid", "", 04755);
    host.dir.make_dir("host/usr/share/closed", 0750);
    host.dir.write("host/usr/share/closed/open", "", 0644);
    host.dir.make_dir("host/usr/share/listless", 0711);
    ASSERT_EQ(::chmod((host.dir / "host/usr/share/app").c_str(), 02755), 0);
    ASSERT_EQ(::chown((host.dir / "host/usr/share/app").c_str(), 0, 33), 0);

    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_THAT(made->masked, UnorderedElementsAre("share/app/key", "share/closed", "share/listless"));
    for (const auto& path : made->masked) {
        const auto whiteout = stat_of(made->usr_mask + "/" + path);
        EXPECT_TRUE(S_ISCHR(whiteout.st_mode) && whiteout.st_rdev == 0) << path;
    }
    EXPECT_THAT(names_in(made->usr_mask), ElementsAre("share"));
    EXPECT_THAT(names_in(made->usr_mask + "/share/app"), ElementsAre("key"));
    EXPECT_EQ(stat_of(made->usr_mask + "/share/app").st_mode & 0777, 0755u);
    EXPECT_EQ(stat_of(made->usr_mask + "/share/app").st_gid, 33u);
}

TEST(HostTemplate, WithNothingToHideHasNoMask)
{
    const FakeHost host;
    const auto made = host.ensure();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(made->usr_mask, "");
    EXPECT_THAT(made->masked, IsEmpty());
}

TEST(HostTemplate, RefusesAHostWhoseUsrIsNotMerged)
{
    const FakeHost host;
    ASSERT_EQ(::unlink((host.dir / "host/lib").c_str()), 0);
    host.dir.make_dir("host/lib");
    const auto refused = host.ensure();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().line(), HasSubstr("/lib is not a link into /usr"));
    EXPECT_THAT(names_in(host.dir / "cache"), ElementsAre("host.lock"));
}

TEST(HostTemplate, RefusesACacheThatSomebodyElseOwns)
{
    const FakeHost host;
    std::string cache = "/";
    if (::geteuid() == 0) {
        cache = host.dir / "theirs";
        host.dir.make_dir("theirs");
        ASSERT_EQ(::chown(cache.c_str(), 1000, 1000), 0);
    }
    const auto refused = ensure_host_template(cache, {}, host.dir / "host");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied);
}

TEST(HostTemplate, ClosesItsCacheToOthers)
{
    const FakeHost host;
    host.dir.make_dir("cache", 0755);
    ASSERT_TRUE(host.ensure());
    EXPECT_EQ(stat_of(host.dir / "cache").st_mode, S_IFDIR | 0700u);
}

TEST(HostTemplate, IsMadeOnceAndAgainWhenTheHostChanges)
{
    const FakeHost host;
    std::vector<std::string> told;
    const Progress tell = [&](std::string_view line) { told.emplace_back(line); };
    const auto first = host.ensure(tell);
    ASSERT_TRUE(first) << first.error().line();
    EXPECT_EQ(told.size(), 1u);
    const auto second = host.ensure(tell);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->dir, first->dir);
    EXPECT_EQ(second->devices, first->devices);
    EXPECT_EQ(told.size(), 1u);

    host.dir.write("host/usr/bin/new", "", 0755);
    const auto third = host.ensure(tell);
    ASSERT_TRUE(third);
    EXPECT_NE(third->fingerprint, first->fingerprint);
    EXPECT_EQ(told.size(), 2u);
    EXPECT_TRUE(host.dir.has("cache/host-" + first->fingerprint)) << "a sandbox may still stand on it";
}

TEST(HostTemplate, AKilledMakerLeavesNothingThatStays)
{
    for (const char* label : {"template:begun", "template:skeleton-made", "template:mask-made",
                              "template:filled", "template:before-rename", "template:renamed"}) {
        SCOPED_TRACE(label);
        const FakeHost host;
        EXPECT_TRUE(killed_at(label, [&] { return host.ensure().has_value(); }));
        const auto made = host.ensure();
        ASSERT_TRUE(made) << made.error().line();
        EXPECT_EQ(read_file(made->skeleton + "/etc/profile"), "profile");
        EXPECT_THAT(names_in(host.dir / "cache"), ElementsAre("host-" + made->fingerprint, "host.lock"));
    }
}

TEST(HostTemplate, TheWorkOfALivingMakerIsLeftAlone)
{
    const FakeHost host;
    int taken[2];
    int waiting[2];
    ASSERT_EQ(::pipe2(taken, O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(waiting, O_CLOEXEC), 0);
    const pid_t maker = start_child([&] {
        const auto cache = Cache::open(host.dir / "cache");
        const auto lock = cache->lock("host", {});
        host.dir.make_dir("cache/host.tmp");
        if (::write(taken[1], "t", 1) != 1) return false;
        for (;;) ::pause();
    });
    char byte = 0;
    ASSERT_EQ(::read(taken[0], &byte, 1), 1);
    const pid_t second = start_child([&] {
        return host.ensure([&](std::string_view) { (void)!::write(waiting[1], "w", 1); }).has_value();
    });
    ASSERT_EQ(::read(waiting[0], &byte, 1), 1) << "told that it waits";
    EXPECT_TRUE(host.dir.has("cache/host.tmp"));

    ::kill(maker, SIGKILL);
    wait_for(maker);
    EXPECT_EQ(wait_for(second), 0) << "goes on when the first is dead";
    EXPECT_FALSE(host.dir.has("cache/host.tmp"));
    for (const int fd : {taken[0], taken[1], waiting[0], waiting[1]}) ::close(fd);
}

TEST(HostTemplate, ManyAtOnceMakeItOnce)
{
    const FakeHost host;
    int made[2];
    ASSERT_EQ(::pipe2(made, O_CLOEXEC), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i)
        children.push_back(start_child([&] {
            const auto tell = [&](std::string_view line) {
                if (line.starts_with("making")) (void)!::write(made[1], "m", 1);
            };
            return host.ensure(tell).has_value();
        }));
    for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
    ::close(made[1]);
    EXPECT_EQ(read_to_end(made[0], 1_KiB, "pipe"), "m");
    ::close(made[0]);
}

TEST(HostTemplate, OfThisMachineCanBeMade)
{
    const TempDir dir;
    const auto made = ensure_host_template(dir / "cache");
    if (!made && made.error().code == Code::Unsupported) GTEST_SKIP() << made.error().line();
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(link_of(made->skeleton + "/bin"), "usr/bin");
    EXPECT_EQ(ensure_host_template(dir / "cache")->dir, made->dir);
}

} // namespace
} // namespace berth::image
