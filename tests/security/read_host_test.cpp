// Reading files of the host that were not shown.

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include <gmock/gmock.h>

#include "base/unique_fd.hpp"
#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

constexpr const char* kSecret = "the host's secret";

/// A file of the host that everybody may read and nobody showed.
class read_host : public ::testing::Test {
protected:
    void SetUp() override { tree_.file("secret", kSecret); }
    [[nodiscard]] std::string secret() const { return tree_.at("secret"); }
    TempTree tree_;
};

void expect_no_secret(const Outcome& outcome)
{
    EXPECT_THAT(outcome.out, Not(HasSubstr(kSecret)));
    EXPECT_THAT(outcome.err, Not(HasSubstr(kSecret)));
}

} // namespace

TEST_F(read_host, read_file_by_absolute_path)
{
    // Without the probe and from /, so that it shows the host's file and not an error when the root is not
    // switched.
    const auto attempt = run({"-w", "/"}, {"sh", "-c", "cat " + secret() + "; echo done"});
    expect_no_secret(attempt);
    EXPECT_THAT(attempt.out, HasSubstr("done"));
    EXPECT_EQ(answer("echo mine >/tmp/f; cat /tmp/f"), "mine\n");
}

TEST_F(read_host, read_file_by_dot_dot)
{
    expect_no_secret(inside("cat ../../../../../../../.." + secret() + "; cat /../.." + secret()));
    EXPECT_EQ(answer("mkdir -p a/b; echo mine >a/f; cat a/b/../f"), "mine\n");
}

TEST_F(read_host, read_file_by_symlink_made_inside)
{
    expect_no_secret(inside("ln -s " + secret() + " l; cat l; ln -s ../../../../.. d; cat d" + secret()));
    EXPECT_EQ(answer("echo mine >f; ln -s f l; cat l"), "mine\n");
}

TEST_F(read_host, read_file_by_symlink_in_workspace)
{
    const TempTree workspace;
    std::filesystem::create_symlink(secret(), workspace.at("out"));
    std::filesystem::create_symlink("inner", workspace.at("in"));
    workspace.file("inner", "mine\n");
    const auto attempt = inside("cat in; cat out", {"--workspace", workspace.path()});
    expect_no_secret(attempt);
    EXPECT_EQ(attempt.out, "mine\n");
}

TEST_F(read_host, show_directory_by_symlink)
{
    // Whoever can write the directory above a source could turn a link to anything.
    const TempTree workspace;
    workspace.file("shown/f", "mine\n");
    std::filesystem::create_symlink(tree_.path(), workspace.at("link"));
    const auto attempt = inside("cat /m/secret", {"--mount", workspace.at("link") + ":/m:ro"});
    expect_no_secret(attempt);
    EXPECT_EQ(attempt.code, 125);
    EXPECT_EQ(answer("cat /m/f; cat /m/../secret /m/../../secret 2>/dev/null || true",
                     {"--mount", workspace.at("shown") + ":/m:ro"}),
              "mine\n");
}

TEST_F(read_host, read_file_by_proc_root_of_every_process)
{
    expect_no_secret(
        inside("for p in /proc/[0-9]*/root /proc/self/root; do cat $p" + secret() + "; done", mightiest()));
    EXPECT_EQ(answer("echo mine >/tmp/f; cat /proc/self/root/tmp/f"), "mine\n");
}

TEST_F(read_host, read_file_by_proc_cwd_of_every_process)
{
    expect_no_secret(
        inside("for p in /proc/[0-9]*/cwd; do cat $p/../../../../.." + secret() + "; done", mightiest()));
    EXPECT_EQ(answer("cd /tmp; echo mine >f; cat /proc/self/cwd/f"), "mine\n");
}

TEST_F(read_host, read_file_by_inherited_descriptor)
{
    const berth::UniqueFd fd(::open(secret().c_str(), O_RDONLY | O_CLOEXEC));
    const Around around{.descriptors = {{fd.get(), 3}, {fd.get(), 4}, {fd.get(), 9}, {fd.get(), 77}}};
    const auto attempt = inside(
        "/probe descriptors; for n in 3 4 9 77; do /probe read-descriptor $n; done; cat /proc/self/fd/9", {},
        around);
    expect_no_secret(attempt);
    EXPECT_EQ(attempt.out, "0\nEBADF\nEBADF\nEBADF\nEBADF\n");
    EXPECT_EQ(answer("cat", {}, {.input = "what was meant to go in\n"}), "what was meant to go in\n");
}

TEST_F(read_host, find_inherited_descriptor_in_pid_1)
{
    if (!as_root())
        GTEST_SKIP()
            << "the kernel shows the descriptors of a process that is not dumpable to root only; run: "
               "sudo ctest -L security";
    const berth::UniqueFd fd(::open(secret().c_str(), O_RDONLY | O_CLOEXEC));
    const Around around{.descriptors = {{fd.get(), 9}, {fd.get(), 77}}};
    Running sandbox({}, "echo up; read line", around);
    ASSERT_EQ(sandbox.line(), "up");
    const std::string fds = "/proc/" + std::to_string(sandbox.first_process()) + "/fd";
    std::vector<std::string> held;
    for (const auto& entry : std::filesystem::directory_iterator(fds))
        held.push_back(std::filesystem::read_symlink(entry.path()));
    EXPECT_FALSE(held.empty());
    EXPECT_THAT(held, Not(::testing::Contains(secret())));
}

TEST_F(read_host, enter_inherited_directory_as_working_directory)
{
    const berth::UniqueFd fd(::open(tree_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const char* number : {"3", "4", "9"}) {
        const auto attempt = inside("cat secret", {"-w", std::string("/proc/self/fd/") + number},
                                    {.descriptors = {{fd.get(), 9}}});
        expect_no_secret(attempt);
        EXPECT_EQ(attempt.code, 125) << number;
    }
    EXPECT_EQ(answer("pwd", {"-w", "/tmp"}), "/tmp\n");
}

TEST_F(read_host, open_file_by_handle)
{
    const Words options{"--mount", tree_.path() + ":/m:ro"};
    EXPECT_EQ(answer("/probe name-to-handle /m/secret; /probe open-by-handle /m; /probe open-by-handle /usr; "
                     "/probe open-read /m/secret",
                     options),
              "EPERM\nEPERM\nEPERM\nok\n");
}

TEST(read_host_places, read_shadow_by_absolute_path)
{
    const auto attempt = inside("cat /etc/shadow /etc/gshadow; grep -c ^user: /etc/passwd", mightiest());
    // Not EXPECT_EQ: a failure must not print what was read.
    EXPECT_TRUE(attempt.out == "1\n") << "more than the sandbox's own accounts was read";
}

TEST(read_host_places, look_into_home_of_root)
{
    EXPECT_EQ(answer("ls -A /root", mightiest()), ".bashrc\n.profile\n");
}

TEST(read_host_places, look_into_homes) { EXPECT_EQ(answer("ls /home; cd ~; pwd"), "user\n/home/user\n"); }

TEST(read_host_places, find_keys)
{
    EXPECT_EQ(
        answer("ls -d /root/.ssh /home/*/.ssh /etc/ssh/ssh_host* /etc/ssl/private/* 2>/dev/null | wc -l; "
               "mkdir -m 700 ~/.ssh; echo k >~/.ssh/id; cat ~/.ssh/id"),
        "0\nk\n");
}

TEST(read_host_places, look_into_var_and_run)
{
    EXPECT_EQ(
        answer(
            "ls -A /var/log /var/spool/* /run/secrets /run/docker.sock /run/dbus 2>/dev/null | grep -v : ; "
            "touch /var/tmp/f && ls /var/tmp"),
        "f\n");
}

TEST(read_host_places, read_device_of_the_disk)
{
    EXPECT_EQ(answer("cd /dev; echo *"),
              "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n");
    EXPECT_EQ(answer("head -c 3 /dev/zero | wc -c; echo x >/dev/null; head -c 5 /dev/urandom | wc -c"),
              "3\n5\n");
}

TEST(read_host_places, read_sysfs) { EXPECT_EQ(answer("ls -A /sys | wc -l", mightiest()), "0\n"); }

TEST(read_host_places, read_below_usr_what_is_not_for_everybody)
{
    // Found on the host as berth's own scan defines it: what others may not read.
    std::string closed;
    std::error_code error;
    using Walk = std::filesystem::recursive_directory_iterator;
    for (Walk at("/usr/share", std::filesystem::directory_options::skip_permission_denied, error), end;
         at != end; at.increment(error)) {
        const auto status = at->symlink_status(error);
        if (at.depth() > 2) at.disable_recursion_pending();
        if (std::filesystem::is_symlink(status)) continue;
        if ((status.permissions() & std::filesystem::perms::others_read) == std::filesystem::perms::none) {
            closed = at->path();
            break;
        }
    }
    if (closed.empty())
        GTEST_SKIP() << "nothing below /usr/share is closed here; make one: install -m 600 /dev/null "
                        "/usr/share/closed";
    if (as_root())
        EXPECT_EQ(answer("ls -d " + closed + " 2>/dev/null; ls -d /usr/share", mightiest()), "/usr/share\n");
    else
        EXPECT_NE(inside("ls " + closed + "/ 2>/dev/null || cat " + closed).code, 0);
}

TEST(read_host_places, read_shadow_in_the_live_view)
{
    // Nothing can be mounted into it, so there is no probe.
    Words options{"--template", "live", "--policy", "read-only", "-w", "/"};
    for (const auto& word : mightiest()) options.push_back(word);
    const auto attempt =
        run(options, {"sh", "-c", "cat /etc/shadow; ls /root; cat /etc/hostname >/dev/null && echo seen"});
    // Not EXPECT_EQ: a failure must not print what was read.
    EXPECT_TRUE(attempt.out == "seen\n") << "the host's shadow file was read, or: " << attempt.err;
}
