// What the root starts from: host, a directory, a tar file, the live view.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A root with one static program; empty when there is none on this machine.
std::string tiny_root()
{
    for (const char* path : {"/usr/bin/busybox", "/bin/busybox"}) {
        if (::access(path, X_OK) != 0) continue;
        // A program with an interpreter needs libraries that a tiny root has not.
        if (contents(path).find("/lib64/ld-linux") != std::string::npos) continue;
        const std::string root = Place::here().dir("root");
        for (const char* dir : {"/bin", "/etc", "/tmp", "/home", "/home/tiny"})
            fs::create_directory(root + dir);
        fs::copy_file(path, root + "/bin/busybox");
        for (const char* name : {"sh", "cat", "id", "ls", "touch", "pwd"})
            fs::create_symlink("busybox", root + "/bin/" + name);
        std::ofstream(root + "/etc/passwd")
            << "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/tiny:/bin/sh\n";
        std::ofstream(root + "/etc/origin") << "tiny\n";
        fs::permissions(root + "/tmp", fs::perms::all);
        return root;
    }
    return {};
}

#define NEED_TINY_ROOT(root)                                                                                 \
    const std::string root = tiny_root();                                                                    \
    if (root.empty()) GTEST_SKIP() << "needs a static busybox: apt-get install busybox-static"

TEST(Template, HostHasTheHostsProgramsAndNotItsFiles)
{
    const auto ended = shell({}, "test -x /usr/bin/env && ls -A /home; cat /etc/shadow 2>/dev/null; ls /root "
                                 "/mnt 2>/dev/null | wc -l");
    EXPECT_TRUE(ended.out.starts_with("user\n")) << ended.out;
    EXPECT_EQ(ended.out.find("$"), std::string::npos) << "a password hash";
}

TEST(Template, DirectoryIsTheRootAndStaysAsItWas)
{
    NEED_TINY_ROOT(root);
    const auto before = files_below(root);
    const auto ended =
        shell({"--template", root}, "cat /etc/origin; id -u; pwd; ls /usr 2>/dev/null; echo x > /tmp/made; "
                                    "echo y > ~/made; echo z > /home/tiny/made; cat /tmp/made");
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "tiny\n1000\n/home/tiny\nx\n");
    EXPECT_EQ(files_below(root), before);
    EXPECT_EQ(shell({"--template", "dir:" + root}, "cat /etc/origin").out, "tiny\n");
}

TEST(Template, TarIsUnpackedOnceAndUsed)
{
    NEED_TINY_ROOT(root);
    const std::string tar = Place::here().path() + "/tiny.tar.gz";
    ASSERT_EQ(std::system(("tar -C '" + root + "' -czf '" + tar + "' .").c_str()), 0);
    const auto ended = shell({"--template", tar}, "cat /etc/origin; id -un");
    EXPECT_EQ(ended.out, "tiny\nuser\n") << ended.err;
    const Traces before = traces();
    EXPECT_EQ(shell({"--template", "tar:" + tar}, "cat /etc/origin").out, "tiny\n");
    expect_same(before);
}

TEST(Template, TarThatIsNoneIsRefused)
{
    const Traces before = traces();
    const auto junk = Place::here().file("junk.tar", "this is no archive, whatever its name says\n");
    const auto ended = berth({"run", "--template", junk, "--", "true"});
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("junk.tar"));
    auto after = before;
    after.files = traces().files;
    std::erase_if(after.files, [](const std::string& name) { return name.ends_with(".lock"); });
    auto expected = before.files;
    std::erase_if(expected, [](const std::string& name) { return name.ends_with(".lock"); });
    EXPECT_EQ(after.files, expected);
}

TEST(Template, DirectoryThatIsNoRootIsRefused)
{
    const auto empty = Place::here().dir("empty");
    const auto ended = berth({"run", "--template", empty, "--", "true"});
    EXPECT_NE(ended.code, 0);
    EXPECT_THAT(ended.err, HasSubstr("berth: "));
}

TEST(Template, DirectoryWithoutTheCommandSaysSo)
{
    NEED_TINY_ROOT(root);
    const auto ended = berth({"run", "--template", root, "--", "gcc"});
    EXPECT_EQ(ended.code, 127);
    EXPECT_EQ(ended.err, "berth: command not found in the sandbox: gcc\n");
}

TEST(Template, LiveShowsTheHostReadOnly)
{
    const auto file = Place::here().dir("shown") + "/file";
    std::ofstream(file) << "of the host\n";
    const auto ended =
        shell({"--template", "live", "--workdir", "/", "--policy", "read-only"},
              "test -r /etc/os-release && echo seen; echo x > /etc/berth-was-here || echo refused");
    EXPECT_EQ(ended.out, "seen\nrefused\n") << ended.err;
    EXPECT_NE(::access("/etc/berth-was-here", F_OK), 0);
}

TEST(Template, LiveWithoutFileRulesIsRefused)
{
    const auto ended = shell({"--template", "live"}, "true");
    EXPECT_EQ(ended.code, 125);
    EXPECT_THAT(ended.err, HasSubstr("use --policy read-only or workspace-write"));
}

TEST(Template, LiveWithAWorkspaceWritesThereOnly)
{
    const auto dir = Place::here().dir("live-work");
    const auto ended = shell({"--template", "live", "--workspace", dir, "--policy", "workspace-write"},
                             "pwd; echo made > file; echo x > /usr/x || echo refused");
    EXPECT_EQ(ended.out, dir + "\nrefused\n") << ended.err;
    EXPECT_EQ(contents(dir + "/file"), "made\n");
}

TEST(Template, ThatDoesNotExistIsNamed)
{
    const auto word = berth({"run", "--template", "nope", "--", "true"});
    EXPECT_EQ(word.code, 125);
    EXPECT_EQ(word.err,
              "berth: no template 'nope': host, live, a directory, a tar file, an image, or one that berth "
              "template ls shows\n");
    const auto path = berth({"run", "--template", "/no/such/root", "--", "true"});
    EXPECT_EQ(path.code, 125);
    EXPECT_EQ(path.err, "berth: template /no/such/root: No such file or directory\n");
    EXPECT_EQ(berth({"run", "--template", "/dev/null", "--", "true"}).code, 125);
    EXPECT_EQ(berth({"run", "--template", "dir:/etc/passwd", "--", "true"}).code, 125);
}

} // namespace
} // namespace berth::test
