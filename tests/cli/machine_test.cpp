// A machine that lacks something, a full disk, exhausted descriptors, a state directory that is
// somebody else's: one line, the right code, nothing left. Lacks are made real, in namespaces.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "base/io.hpp"
#include "base/json.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"
#include "support/tsan.hpp"

namespace berth::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

void expect_one_line(const Ended& ended, const std::string& word)
{
    EXPECT_EQ(ended.code, 125) << ended.out << ended.err;
    EXPECT_TRUE(ended.err.starts_with("berth: ")) << ended.err;
    EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(word));
}

/// Runs as the only user of a new user namespace, in which no further one may be made.
void without_user_namespaces()
{
    const auto uid = ::geteuid();
    const auto gid = ::getegid();
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ::_exit(201);
    if (!write_control("/proc/self/setgroups", "deny") ||
        !write_control("/proc/self/uid_map", fmt::format("{} {} 1", uid == 0 ? 1000 : uid, uid)) ||
        !write_control("/proc/self/gid_map", fmt::format("{} {} 1", gid == 0 ? 1000 : gid, gid)) ||
        !write_control("/proc/sys/user/max_user_namespaces", "0"))
        ::_exit(202);
}

/// A sanitizer's own work at exit needs a process and descriptors, which these tests take away.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BERTH_NOT_UNDER_SANITIZERS() GTEST_SKIP() << "not under a sanitizer; run: ./dev test -R cli:Machine"
#else
#define BERTH_NOT_UNDER_SANITIZERS() static_cast<void>(0)
#endif

TEST(Machine, WithoutUserNamespacesIsToldWithTheRemedy)
{
    BERTH_NEEDS_ONE_THREAD();
    const auto state = Place::here().dir("state-no-userns");
    ::chmod(state.c_str(), 0700);
    const auto ended =
        run({.args = {"run", "--data", state, "--", "true"}, .in_child = without_user_namespaces});
    expect_one_line(ended, "user namespaces");
    EXPECT_THAT(ended.err, HasSubstr("berth doctor"));
    const auto json =
        run({.args = {"run", "--json", "--data", state, "--", "true"}, .in_child = without_user_namespaces});
    EXPECT_THAT(json.out, HasSubstr("\"code\":\"unsupported\""));
    const auto doctor = run({.args = {"doctor", "--data", state}, .in_child = without_user_namespaces});
    EXPECT_EQ(doctor.code, 6) << doctor.err;
    EXPECT_THAT(doctor.out, HasSubstr("sysctl -w user.max_user_namespaces"));
}

TEST(Machine, WhereThePidLimitIsReachedSaysSo)
{
    BERTH_NOT_UNDER_SANITIZERS();
    // Enough for berth, not for a sandbox. Root is not bound by it, so this runs as an ordinary user.
    const Traces before = traces();
    const Start start{.args = {"run", "--", "true"}, .in_child = [] {
                          const rlimit none{.rlim_cur = 0, .rlim_max = 0};
                          ::setrlimit(RLIMIT_NPROC, &none);
                      }};
    if (is_root()) GTEST_SKIP() << "root is not bound by RLIMIT_NPROC: tools/dev/as-user runs this test";
    const auto ended = run(start);
    expect_one_line(ended, "too many processes");
    expect_same(before);
}

TEST(Machine, WherePidsAreExhaustedInTheGroupSaysSo)
{
    BERTH_NOT_UNDER_SANITIZERS();
    BERTH_NEEDS_ROOT();
    const std::string group = "/sys/fs/cgroup/pids/berth-test-" + Place::here().mark();
    if (::mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "needs a v1 pids hierarchy at /sys/fs/cgroup/pids";
    const Traces before = traces();
    const auto ended = run({.args = {"run", "--", "true"}, .in_child = [&] {
                                static_cast<void>(write_control(group + "/pids.max", "1"));
                                static_cast<void>(write_control(group + "/cgroup.procs", "0"));
                            }});
    expect_one_line(ended, "Resource temporarily unavailable");
    EXPECT_TRUE(eventually([&] { return ::rmdir((group + "/berth").c_str()) == 0 || errno == ENOENT; }));
    EXPECT_TRUE(eventually([&] { return ::rmdir(group.c_str()) == 0; }));
    expect_same(before);
}

TEST(Machine, OutOfDescriptorsSaysSo)
{
    BERTH_NOT_UNDER_SANITIZERS();
    const Traces before = traces();
    int refused = 0;
    for (rlim_t limit = 4; limit < 40; ++limit) {
        const auto ended = run({.args = {"run", "--", "true"}, .in_child = [limit] {
                                    const rlimit few{.rlim_cur = limit, .rlim_max = limit};
                                    ::setrlimit(RLIMIT_NOFILE, &few);
                                }});
        SCOPED_TRACE(limit);
        if (ended.code == 0) continue;
        ++refused;
        expect_one_line(ended, "Too many open files");
    }
    EXPECT_GT(refused, 3);
    expect_same(before);
}

TEST(StateDirectory, OfAnotherUserIsRefused)
{
    const std::string dir = Place::here().dir("of-another");
    if (is_root()) {
        ASSERT_EQ(::chown(dir.c_str(), 4321, 4321), 0);
        expect_one_line(berth({"run", "--data", dir, "--", "true"}), "belongs to user 4321");
    } else {
        expect_one_line(berth({"run", "--data", "/usr", "--", "true"}), "belongs to user 0");
    }
}

TEST(StateDirectory, OpenToOthersIsRefusedWithTheRemedy)
{
    const auto dir = Place::here().dir("open");
    const auto ended = berth({"run", "--data", dir, "--", "true"});
    expect_one_line(ended, "is open to others (mode 0755)");
    EXPECT_THAT(ended.err, HasSubstr("chmod 700 " + dir));
    EXPECT_EQ(files_below(dir), std::vector<std::string>{});
}

TEST(StateDirectory, ThatCannotBeWrittenIsNamed)
{
    if (is_root()) {
        // Root passes every mode bit; a read-only mount stops it.
        const auto dir = Place::here().dir("read-only");
        ::chmod(dir.c_str(), 0700);
        const auto ended =
            run({.args = {"run", "--data", dir, "--", "true"}, .in_child = [&] {
                     ::unshare(CLONE_NEWNS);
                     ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
                     ::mount(dir.c_str(), dir.c_str(), nullptr, MS_BIND, nullptr);
                     ::mount(nullptr, dir.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr);
                 }});
        expect_one_line(ended, dir);
        EXPECT_THAT(ended.err, HasSubstr("Read-only file system"));
    } else {
        const auto dir = Place::here().dir("read-only");
        ::chmod(dir.c_str(), 0500);
        const auto ended = berth({"run", "--data", dir, "--", "true"});
        expect_one_line(ended, dir);
        EXPECT_THAT(ended.err, HasSubstr("Permission denied"));
    }
    expect_one_line(berth({"run", "--data", "/proc/nope", "--", "true"}), "/proc/nope");
    expect_one_line(berth({"run", "--data", Place::here().file("file", ""), "--", "true"}),
                    "Not a directory");
}

TEST(StateDirectory, ThatIsFullIsNamedAndCleansUp)
{
    BERTH_NEEDS_ROOT();
    const auto dir = Place::here().dir("full");
    const auto listing = Place::here().file("listing", "");
    for (const char* size : {"size=64k", "size=256k", "nr_inodes=40"}) {
        const auto ended =
            run({.args = {"-c",
                          fmt::format(
                              "mount -t tmpfs -o mode=700,{0} tmpfs '{1}' && '{2}' run --data '{1}' -- true; "
                              "code=$?; find '{1}/template' -mindepth 1 ! -name '*.lock' > '{3}'; exit $code",
                              size, dir, program(), listing)},
                 .program = "/bin/sh",
                 .in_child = [] {
                     ::unshare(CLONE_NEWNS);
                     ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
                 }});
        SCOPED_TRACE(size);
        expect_one_line(ended, "No space left on device");
        EXPECT_EQ(contents(listing), "");
    }
}

TEST(StateDirectory, IsFoundByEnvironmentAndHome)
{
    const auto home = Place::here().dir("home");
    const auto ended = run({.args = {"run", "--", "true"}, .env = {{"BERTH_DATA", home + "/deep/er/state"}}});
    EXPECT_EQ(ended.code, 0) << ended.err;
    struct stat st{};
    ASSERT_EQ(::stat((home + "/deep/er/state").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0700u);
    const auto beside =
        run({.args = {"run", "--", "true"}, .env = {{"BERTH_DATA", "beside"}}, .in_child = [&home] {
                 (void)!::chdir(home.c_str());
             }});
    EXPECT_EQ(beside.code, 0) << beside.err;
    EXPECT_TRUE(std::filesystem::exists(home + "/beside/template")) << "like --data, from where we are";
    if (!is_root()) {
        EXPECT_EQ(run({.args = {"run", "--", "true"}, .env = {{"BERTH_DATA", ""}, {"HOME", home}}}).code, 0);
        EXPECT_TRUE(std::filesystem::exists(home + "/.local/state/berth/template"));
    }
}

TEST(StateDirectory, TakesNamesOfEveryKind)
{
    for (const char* name : {"a space", "a,comma", "a:colon", "ünï", "new\nline", "back\\slash"}) {
        const auto dir = Place::here().dir(name) + "/state";
        const auto ended = run({.args = {"run", "--data", dir, "--", "echo", "fine"}});
        EXPECT_EQ(ended.out, "fine\n") << name << ": " << ended.err;
    }
}

TEST(StateDirectory, IsSharedByEightProgramsFromNothing)
{
    const auto dir = Place::here().dir("shared") + "/state";
    std::vector<std::unique_ptr<Started>> all;
    for (int i = 0; i < 8; ++i)
        all.push_back(std::make_unique<Started>(
            Start{.args = {"run", "--data", dir, "--", "sh", "-c", "exit " + std::to_string(i + 10)}}));
    for (int i = 0; i < 8; ++i) {
        const auto ended = all[static_cast<std::size_t>(i)]->finish();
        EXPECT_EQ(ended.code, i + 10) << ended.err;
        EXPECT_EQ(ended.err, "");
    }
}

TEST(Machine, WhereOverlayCannotBeMountedSaysSo)
{
    BERTH_NEEDS_ROOT();
    // The kernel stacks two overlays and no third: a template on the second makes ours the third.
    const auto dir = Place::here().dir("stacked");
    const auto ended = run(
        {.args = {"-c",
                  fmt::format(
                      "mount -t tmpfs tmpfs '{0}' && cd '{0}' && mkdir l u1 w1 m1 u2 w2 m2 l/bin l/etc && "
                      "cp /bin/true l/bin && touch l/etc/passwd && "
                      "mount -t overlay -o lowerdir=l,upperdir=u1,workdir=w1 overlay m1 && "
                      "mount -t overlay -o lowerdir=m1,upperdir=u2,workdir=w2 overlay m2 && "
                      "exec '{1}' run --template \"$PWD/m2\" -- true",
                      dir, program())},
         .program = "/bin/sh",
         .in_child = [] {
             ::unshare(CLONE_NEWNS);
             ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
         }});
    expect_one_line(ended, "overlay");
}

TEST(Machine, WithoutHomeSaysWhatToSet)
{
    if (is_root()) GTEST_SKIP() << "root's state directory needs no HOME: tools/dev/as-user runs this test";
    expect_one_line(run({.args = {"run", "--", "true"}, .env = {{"BERTH_DATA", ""}, {"HOME", ""}}}),
                    "--data DIR");
}

} // namespace
} // namespace berth::test
