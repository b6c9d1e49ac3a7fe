// What is mounted in a directory that an ordinary user's sandbox shows: without privileges nobody may look
// below a mount, so it has to come along, and is covered.

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/strings.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

constexpr uid_t kSomebody = 4321;

std::string directory_of_somebody(const std::string& name)
{
    const auto dir = Place::here().dir(name);
    EXPECT_EQ(::chmod(dir.c_str(), 0700), 0);
    EXPECT_EQ(::chown(dir.c_str(), kSomebody, kSomebody), 0);
    return dir;
}

/// berth as an ordinary user of a machine that has a file system mounted at `where`, with a file in it.
Ended with_mount(const std::string& where, Words args)
{
    return run({.args = std::move(args), .in_child = [&] {
                    const bool done = ::unshare(CLONE_NEWNS) == 0 &&
                                      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                                      ::mount("t", where.c_str(), "tmpfs", 0, "mode=777") == 0 &&
                                      (std::ofstream(where + "/deep") << "below\n"
                                                                      << std::flush)
                                          .good() &&
                                      ::setgroups(0, nullptr) == 0 && ::setgid(kSomebody) == 0 &&
                                      ::setuid(kSomebody) == 0;
                    if (!done) ::_exit(99);
                }});
}

TEST(Mounted, InAWorkspaceIsCovered)
{
    BERTH_NEEDS_ROOT();
    const auto dir = directory_of_somebody("workspace");
    const auto state = directory_of_somebody("state");
    std::filesystem::create_directory(dir + "/inner");
    const auto in = [&](const std::string& mode) {
        return with_mount(
            dir + "/inner",
            {"run", "--data", state, "--workspace", dir + mode, "--", "sh", "-c",
             "ls -A inner; echo x > inner/made || echo refused; echo y > beside && cat beside"});
    };
    const auto writable = in("");
    EXPECT_EQ(writable.out, "refused\ny\n") << writable.err;
    EXPECT_EQ(in(":ro").out, "refused\n");
    const auto copy = in(":copy");
    EXPECT_EQ(copy.code, 125);
    EXPECT_THAT(copy.err, HasSubstr("inner is mounted in it"));
}

TEST(Mounted, InUsrLeavesALayerOverUsrLocal)
{
    BERTH_NEEDS_ROOT();
    const auto state = directory_of_somebody("state");
    const std::string where = "/usr/share/doc"; // on every Debian, and nothing needs it
    if (!std::filesystem::is_directory(where)) GTEST_SKIP() << "there is no " << where << ": mkdir it";
    const auto berth = [&](Words args) {
        args.insert(args.begin() + 1, {"--data", state});
        return with_mount(where, std::move(args));
    };
    const auto ended =
        berth({"run", "--", "sh", "-c",
               "ls -A /usr/share/doc; touch /usr/bin/x || echo refused; "
               "echo made > /usr/local/bin/x; cat /usr/local/bin/x; touch /etc/x && echo fine"});
    EXPECT_EQ(ended.out, "refused\nmade\nfine\n") << ended.err;
    EXPECT_THAT(ended.err,
                HasSubstr("/usr is read-only, but for /usr/local: /usr/share/doc is mounted in it"));

    // What was put there outlives stop and start, snapshot and fork.
    EXPECT_EQ(berth({"create", "--name", "box"}).code, 0);
    EXPECT_EQ(berth({"exec", "box", "--", "sh", "-c", "echo one > /usr/local/bin/one"}).code, 0);
    EXPECT_EQ(berth({"fork", "box"}).code, 0);
    EXPECT_EQ(berth({"exec", "box", "--", "sh", "-c", "echo two > /usr/local/bin/two"}).code, 0);
    EXPECT_EQ(berth({"stop", "box"}).code, 0);
    EXPECT_EQ(berth({"start", "box"}).code, 0);
    EXPECT_EQ(berth({"exec", "box", "--", "sh", "-c", "cat /usr/local/bin/one /usr/local/bin/two"}).out,
              "one\ntwo\n");
    for (const auto& id : split(trimmed(berth({"ls", "--quiet"}).out), '\n'))
        EXPECT_EQ(berth({"rm", id}).code, 0) << id;
}

} // namespace
} // namespace berth::test
