// Gaining privilege: set-id programs, capabilities, ids, device nodes in templates.

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;

namespace {

/// A root file system that holds nothing but the probe, in three places.
void make_template(const TempTree& tree)
{
    for (const char* name : {"proc", "dev", "sys", "tmp", "etc", "bin", "usr/bin", "home/user"})
        tree.directory(name);
    for (const char* name : {"probe", "bin/probe", "usr/bin/probe"})
        std::filesystem::copy_file(place() + "/probe", tree.at(name));
}

} // namespace

TEST(privileges, keep_capabilities_as_user)
{
    EXPECT_EQ(
        answer("/probe status CapEff; /probe status CapPrm; /probe status CapInh; /probe status CapAmb"),
        "0000000000000000\n0000000000000000\n0000000000000000\n0000000000000000\n");
}

TEST(privileges, keep_capabilities_as_root)
{
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE.
    const std::string eight = as_root() ? "00000000000004fb\n" : "0000000000000000\n";
    EXPECT_EQ(answer("/probe status CapBnd; /probe status CapEff; /probe status CapAmb", mightiest()),
              eight + eight + "0000000000000000\n");
}

TEST(privileges, allow_new_privileges) { EXPECT_EQ(answer("/probe status NoNewPrivs", mightiest()), "1\n"); }

TEST(privileges, run_set_id_program_of_the_host)
{
    if (!std::filesystem::exists("/usr/bin/su"))
        GTEST_SKIP() << "no /usr/bin/su here; run: apt-get install util-linux";
    // Whatever su does next, it starts as who we are.
    EXPECT_EQ(answer("stat -c %a /usr/bin/su; (su -c id </dev/null >/dev/null 2>&1 && echo "
                     "became); id -u"),
              "4755\n1000\n");
}

TEST(privileges, run_set_id_program_made_inside)
{
    if (as_root()) {
        EXPECT_EQ(
            answer(
                "cp /probe /usr/local/bin/p; chmod 4755 /usr/local/bin/p; setpriv --reuid=1000 --regid=1000 "
                "--clear-groups /usr/local/bin/p effective-user; setpriv --reuid=1000 --regid=1000 "
                "--clear-groups id -u",
                {"-u", "root"}),
            "1000\n1000\n");
    } else {
        EXPECT_EQ(
            answer(
                "cp /probe /usr/local/bin/p; chmod 4755 /usr/local/bin/p; /usr/local/bin/p effective-user"),
            "1000\n");
    }
}

TEST(privileges, run_set_id_program_of_a_mount)
{
    const TempTree shown;
    std::filesystem::copy_file(place() + "/probe", shown.at("p"));
    ASSERT_EQ(::chmod(shown.at("p").c_str(), 04755), 0);
    EXPECT_EQ(answer("/m/p effective-user; grep ' /m ' /proc/mounts | grep -c nosuid",
                     {"--mount", shown.path() + ":/m:ro"}),
              "1000\n1\n");
}

TEST(privileges, run_set_id_program_of_a_template)
{
    const TempTree root;
    make_template(root);
    if (as_root()) ASSERT_EQ(::chown(root.at("bin/probe").c_str(), 0, 0), 0);
    ASSERT_EQ(::chmod(root.at("bin/probe").c_str(), 06755), 0);
    const Words options{"--template", root.path(), "-w", "/"};
    EXPECT_EQ(run(options, {"/bin/probe", "effective-user"}).out, "1000\n");
    EXPECT_EQ(run(options, {"/probe", "effective-user"}).out, "1000\n");
}

TEST(privileges, give_file_capabilities)
{
    EXPECT_EQ(answer("cp /probe p; /probe file-capability p; ./p status CapEff; ./p epoll"),
              "EPERM\n0000000000000000\nok\n");
    if (as_root()) EXPECT_EQ(answer("cp /probe p; /probe file-capability p", {"-u", "root"}), "EPERM\n");
}

TEST(privileges, become_root)
{
    EXPECT_EQ(answer("/probe set-user 0; /probe set-groups; id -u").substr(0, 1), "E");
    EXPECT_EQ(answer("/probe set-groups; id -u"), "EPERM\n1000\n");
}

TEST(privileges, be_root_of_the_host)
{
    const auto map = answer("cat /proc/self/uid_map | tr -s ' '", mightiest());
    EXPECT_NE(map, " 0 0 4294967295\n") << "the host's own ids";
    if (as_root())
        EXPECT_THAT(map, ::testing::EndsWith(" 65536\n"));
    else
        EXPECT_THAT(map, ::testing::EndsWith(" 1\n"));
}

TEST(privileges, ask_for_root_as_ordinary_user)
{
    const auto asked = inside(
        "id -u; chown 5:5 /etc/hosts && useradd -M tester && grep -c ^tester: /etc/passwd", {"-u", "root"});
    if (as_root()) {
        EXPECT_EQ(asked.out, "0\n1\n") << asked.err;
    } else {
        EXPECT_EQ(asked.code, 125);
        EXPECT_THAT(asked.err, HasSubstr("run berth as root"));
    }
}

TEST(privileges, make_device_node)
{
    EXPECT_EQ(answer("for d in /tmp /dev/shm /usr/local /run/lock; do /probe make-node $d/c char; /probe "
                     "make-node $d/b "
                     "block; done 2>&1 | sort -u; mkfifo /tmp/p && echo ok",
                     mightiest()),
              "EPERM\nok\n");
}

TEST(privileges, open_device_node_of_a_template)
{
    const TempTree root;
    make_template(root);
    const Words options{"--template", root.path(), "-w", "/"};
    if (as_root()) {
        // Harmless should it open: it is another /dev/zero.
        ASSERT_EQ(::mknod(root.at("node").c_str(), S_IFCHR | 0666, makedev(1, 5)), 0);
        ASSERT_EQ(::chmod(root.at("node").c_str(), 0666), 0);
        EXPECT_EQ(run(options, {"/probe", "open-read", "/node"}).out, "EACCES\n");
    } else {
        EXPECT_EQ(run(options, {"/probe", "make-node", "/tmp/c", "char"}).out, "EPERM\n");
    }
    EXPECT_EQ(run(options, {"/probe", "open-read", "/dev/zero"}).out, "ok\n");
}

TEST(privileges, let_template_links_divert_mounts)
{
    // A template whose /proc and /dev are links must not have them made at the links' targets.
    const TempTree root;
    make_template(root);
    std::filesystem::remove(root.at("proc"));
    std::filesystem::create_symlink("/tmp", root.at("proc"));
    const auto attempt = run({"--template", root.path(), "-w", "/"}, {"/probe", "epoll"});
    EXPECT_EQ(attempt.code, 125);
    EXPECT_THAT(attempt.err, HasSubstr("proc"));
}
