// Changing the host: through what was shown, through the layers below, through /proc.

#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;

namespace {

unsigned owner_of(const std::string& path)
{
    struct stat st{};
    return ::lstat(path.c_str(), &st) == 0 ? st.st_uid : ~0u;
}

/// Every object below a directory that has a set-id bit.
std::vector<std::string> set_id_below(const std::string& directory)
{
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
        struct stat st{};
        if (::lstat(entry.path().c_str(), &st) == 0 && (st.st_mode & 06000) != 0)
            found.push_back(entry.path());
    }
    return found;
}

} // namespace

TEST(write_host, write_read_only_mount)
{
    const TempTree shown;
    shown.file("f", "as it was");
    EXPECT_EQ(
        answer("/probe open-write /m/f; /probe create /m/new; /probe truncate /m/f; /probe rename /m/f /m/g; "
               "/probe chmod /m/f; /probe link /m/f /m/g; cat /m/f",
               {"--mount", shown.path() + ":/m:ro"}),
        "EROFS\nEROFS\nEROFS\nEROFS\nEROFS\nEROFS\nas it was");
    EXPECT_EQ(shown.read("f"), "as it was");
}

TEST(write_host, make_read_only_mount_writable)
{
    const TempTree shown;
    shown.file("f", "as it was");
    Words options{"--mount", shown.path() + ":/m:ro"};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(
        answer("/probe remount /m; /probe mount-setattr /m; /probe bind /m /mnt; /probe open-write /m/f",
               options),
        "EPERM\nEPERM\nEPERM\nEROFS\n");
}

TEST(write_host, write_through_symlink_out_of_workspace)
{
    const TempTree outside;
    const TempTree workspace;
    outside.file("victim", "as it was");
    std::filesystem::create_symlink(outside.at("victim"), workspace.at("file"));
    std::filesystem::create_symlink(outside.path(), workspace.at("dir"));
    const auto attempt =
        inside("echo evil >file; echo evil >dir/new; echo fine >mine", {"--workspace", workspace.path()});
    EXPECT_EQ(outside.read("victim"), "as it was");
    EXPECT_FALSE(outside.exists("new"));
    EXPECT_EQ(workspace.read("mine"), "fine\n") << attempt.err;
}

TEST(write_host, write_through_symlink_made_inside)
{
    const TempTree outside;
    const TempTree workspace;
    outside.file("victim", "as it was");
    (void)inside("ln -s " + outside.at("victim") + " l; echo evil >l; ln -s / root; echo evil >root" +
                     outside.at("new"),
                 {"--workspace", workspace.path()});
    EXPECT_EQ(outside.read("victim"), "as it was");
    EXPECT_FALSE(outside.exists("new"));
    EXPECT_TRUE(workspace.exists("l")) << "a link may be made; it leads nowhere inside";
}

TEST(write_host, hard_link_out_of_workspace)
{
    const TempTree workspace;
    workspace.file("f", "as it was");
    EXPECT_EQ(answer("/probe link f /tmp/g; /probe link /etc/passwd p; /probe link f g; cat g",
                     {"--workspace", workspace.path()}),
              "EXDEV\nEXDEV\nok\nas it was");
}

TEST(write_host, leave_set_id_file_by_every_way)
{
    const TempTree workspace;
    const auto attempt = inside("/probe set-id .", {"--workspace", workspace.path()});
    EXPECT_EQ(attempt.out,
              "chmod EPERM\nfchmod EPERM\nfchmodat EPERM\nfchmodat2 EPERM\ncreat EPERM\nopen EPERM\n"
              "openat EPERM\nopenat2 ENOSYS\ntmpfile EPERM\nmknod EPERM\nmknodat EPERM\nmkdir EPERM\n"
              "mkdirat EPERM\nchmod-high EPERM\n");
    EXPECT_THAT(set_id_below(workspace.path()), ::testing::IsEmpty());
}

TEST(write_host, leave_set_id_file_as_root_inside)
{
    const TempTree workspace;
    workspace.file("f", "");
    Words options{"--workspace", workspace.path()};
    for (const auto& word : mightiest()) options.push_back(word);
    (void)inside("/probe set-id .; chmod 4755 f; chmod u+s f; chgrp 0 f; chmod 2755 f", options);
    EXPECT_THAT(set_id_below(workspace.path()), ::testing::IsEmpty());
    EXPECT_EQ(
        answer("umask 022; echo >p; chmod 750 p; cp -p p q; install -m 755 p r; tar cf t p q r; mkdir x; "
               "tar xpf t -C x; stat -c %a p q r x/p x/r",
               {"--workspace", workspace.path()}),
        "750\n750\n755\n750\n755\n");
}

TEST(write_host, leave_device_node_in_workspace)
{
    const TempTree workspace;
    Words options{"--workspace", workspace.path()};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(answer("/probe make-node c char; /probe make-node b block", options), "EPERM\nEPERM\n");
    EXPECT_EQ(answer("mkfifo p && (echo through >p &) && cat p", {"--workspace", workspace.path()}),
              "through\n");
    EXPECT_FALSE(workspace.exists("c"));
}

TEST(write_host, leave_file_capability_in_workspace)
{
    const TempTree workspace;
    workspace.file("f", "x");
    Words options{"--workspace", workspace.path()};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(answer("/probe file-capability f", options), "EPERM\n");
    EXPECT_LT(::getxattr(workspace.at("f").c_str(), "security.capability", nullptr, 0), 0);
}

TEST(write_host, create_file_of_the_hosts_root)
{
    const TempTree workspace;
    const Words shown{"--workspace", workspace.path()};
    EXPECT_EQ(answer("echo x >mine && stat -c %U mine", shown), "user\n");
    EXPECT_EQ(owner_of(workspace.at("mine")), owner_of(workspace.path())) << "the owner of the directory";
    const auto attempt = inside("/probe create theirs", {"--workspace", workspace.path(), "-u", "root"});
    if (as_root()) {
        EXPECT_EQ(attempt.out, "ok\n") << attempt.err;
        EXPECT_EQ(owner_of(workspace.at("theirs")), owner_of(workspace.path())) << "never the host's root";
    } else {
        EXPECT_EQ(attempt.code, 125);
        EXPECT_THAT(attempt.err, HasSubstr("root"));
        EXPECT_FALSE(workspace.exists("theirs"));
    }
}

TEST(write_host, give_files_in_workspace_away)
{
    const TempTree workspace;
    workspace.file("f", "");
    Words options{"--workspace", workspace.path()};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_NE(answer("/probe chown f", options), "ok\n");
    EXPECT_EQ(owner_of(workspace.at("f")), owner_of(workspace.path()));
}

TEST(write_host, write_into_private_copy_of_workspace)
{
    const TempTree workspace;
    workspace.file("f", "as it was\n");
    EXPECT_EQ(
        answer("cat f; echo changed >f; echo new >g; cat f g", {"--workspace", workspace.path() + ":copy"}),
        "as it was\nchanged\nnew\n");
    EXPECT_EQ(workspace.read("f"), "as it was\n");
    EXPECT_FALSE(workspace.exists("g"));
}

TEST(write_host, change_the_hosts_programs)
{
    struct stat before{};
    ASSERT_EQ(::stat("/usr/bin/env", &before), 0);
    const auto attempt = inside("rm -f /usr/bin/env; echo evil >/usr/bin/berth-security-test; "
                                "echo mine >/usr/local/bin/mine && cat /usr/local/bin/mine",
                                mightiest());
    EXPECT_THAT(attempt.out, HasSubstr("mine\n"));
    struct stat after{};
    ASSERT_EQ(::stat("/usr/bin/env", &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_FALSE(std::filesystem::exists("/usr/bin/berth-security-test"));
    EXPECT_FALSE(std::filesystem::exists("/usr/local/bin/mine"));
}

TEST(write_host, change_the_hosts_etc)
{
    EXPECT_EQ(answer("mkdir /etc/berth-security-test && echo x >/etc/hosts && cat /etc/hosts", mightiest()),
              "x\n");
    EXPECT_FALSE(std::filesystem::exists("/etc/berth-security-test"));
}

TEST(write_host, change_the_template_for_the_next_sandbox)
{
    EXPECT_EQ(answer("echo evil >>/etc/profile; echo evil >~/evil; echo ok", mightiest()), "ok\n");
    EXPECT_EQ(answer("grep -c evil /etc/profile; ls ~", mightiest()), "0\n");
}

TEST(write_host, write_sysctl)
{
    const char* attempts = "for f in core_pattern modprobe hostname domainname sysrq randomize_va_space "
                           "core_uses_pid printk; do test -e /proc/sys/kernel/$f && /probe open-write "
                           "/proc/sys/kernel/$f; done | sort -u; cat /proc/sys/kernel/ostype";
    EXPECT_EQ(answer(attempts, mightiest()), "EACCES\nLinux\n");
}

TEST(write_host, write_sysctl_without_mapped_ids)
{
    if (as_root()) {
        // Root inside is then the host's root, and the mount is what stands between.
        const Around plain{.program = hooks_program(), .env = {{"BERTH_TEST_LACK", "idmap"}}};
        EXPECT_EQ(answer("/probe open-write /proc/sys/kernel/core_pattern; /probe open-write "
                         "/proc/sys/kernel/hostname; /probe open-read /proc/sys/kernel/hostname",
                         {"-u", "root"}, plain),
                  "EROFS\nEROFS\nok\n");
    } else {
        EXPECT_EQ(answer("grep ' /proc/sys ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1"), "ro\n");
    }
}

TEST(write_host, register_binary_format)
{
    EXPECT_EQ(
        answer("ls -A /proc/sys/fs/binfmt_misc | wc -l; /probe mount binfmt_misc /mnt; echo '#!/bin/sh\necho "
               "ran' >/tmp/s; chmod +x /tmp/s; /tmp/s",
               mightiest()),
        "0\nEPERM\nran\n");
}

TEST(write_host, name_release_agent)
{
    EXPECT_EQ(
        answer("/probe mount cgroup /mnt; /probe mount cgroup2 /mnt; ls -A /sys | wc -l; find / -xdev -name "
               "release_agent 2>/dev/null | wc -l",
               mightiest()),
        "EPERM\nEPERM\n0\n0\n");
}

TEST(write_host, press_sysrq)
{
    const std::string pressed =
        answer("/probe open-write /proc/sysrq-trigger; echo x >/dev/null", mightiest());
    // Under its mask it is /dev/null, which may be opened; on kernels without it there is nothing.
    EXPECT_TRUE(pressed == "ENOENT\n" || answer("/probe masked sysrq-trigger", mightiest()) == "masked\n")
        << pressed;
}

TEST(write_host, write_in_the_live_view)
{
    Words options{"--template", "live", "--policy", "workspace-write", "-w", "/"};
    for (const auto& word : mightiest()) options.push_back(word);
    const auto attempt = run(options, {"sh", "-c",
                                       "touch /usr/bin/berth-security-test /etc/berth-security-test "
                                       "/opt/berth-security-test; touch /tmp/mine && echo fine"});
    EXPECT_EQ(attempt.out, "fine\n") << attempt.err;
    for (const char* path : {"/usr/bin", "/etc", "/opt"})
        EXPECT_FALSE(std::filesystem::exists(std::string(path) + "/berth-security-test"));
}
