// Mounting, and making or entering namespaces: each as the mightiest user inside.

#include <unistd.h>

#include <gtest/gtest.h>

#include "sandbox.hpp"

using namespace security;

namespace {

std::string mighty(const std::string& script) { return answer(script, mightiest()); }

} // namespace

TEST(mounting, mount_tmpfs)
{
    EXPECT_EQ(mighty("/probe mount tmpfs /mnt; mkdir /tmp/d && echo ok"), "EPERM\nok\n");
}

TEST(mounting, mount_fresh_proc)
{
    EXPECT_EQ(mighty("/probe mount proc /mnt; test -d /proc/self && echo ok"), "EPERM\nok\n");
}

TEST(mounting, mount_sysfs)
{
    EXPECT_EQ(mighty("/probe mount sysfs /sys; /probe open-read /sys"), "EPERM\nok\n");
}

TEST(mounting, mount_overlay)
{
    EXPECT_EQ(
        mighty("/probe mount overlay /mnt; cp -r /etc /tmp/copy 2>/dev/null; test -d /tmp/copy && echo ok"),
        "EPERM\nok\n");
}

TEST(mounting, bind)
{
    EXPECT_EQ(mighty("/probe bind /etc /mnt; ln -s /etc /mnt/etc && echo ok"), "EPERM\nok\n");
}

TEST(mounting, remount_proc)
{
    EXPECT_EQ(mighty("/probe remount /proc; /probe mount-setattr /proc"), "EPERM\nEPERM\n");
}

TEST(mounting, uncover_masked_file)
{
    EXPECT_EQ(mighty("/probe unmount /proc/kallsyms; /probe unmount /proc/keys; /probe masked kallsyms"),
              "EPERM\nEPERM\nmasked\n");
}

TEST(mounting, unmount_root_and_usr)
{
    EXPECT_EQ(mighty("/probe unmount /; /probe unmount /usr; /probe unmount /proc; ls -d /usr"),
              "EPERM\nEPERM\nEPERM\n/usr\n");
}

TEST(mounting, pivot_root) { EXPECT_EQ(mighty("cd /; /probe pivot-root; pwd"), "EPERM\n/\n"); }

TEST(mounting, chroot_and_climb_out)
{
    EXPECT_EQ(mighty("/probe chroot /tmp; cd /tmp && pwd"), "EPERM\n/tmp\n");
}

TEST(mounting, open_file_system_context)
{
    EXPECT_EQ(mighty("/probe fsopen tmpfs; /probe fsopen proc; /probe fspick /"), "EPERM\nEPERM\nEPERM\n");
}

TEST(mounting, clone_mount_tree)
{
    EXPECT_EQ(mighty("/probe open-tree /; /probe open-tree /proc; /probe open-read /"), "EPERM\nEPERM\nok\n");
}

TEST(mounting, move_mount) { EXPECT_EQ(mighty("/probe move-mount /usr /mnt; ls -d /usr"), "EPERM\n/usr\n"); }

TEST(mounting, change_mount_attributes)
{
    EXPECT_EQ(mighty("/probe mount-setattr /; /probe mount-setattr /proc; /probe chmod /tmp"),
              "EPERM\nEPERM\n" + std::string("ok\n"));
}

TEST(namespaces, unshare_user) { EXPECT_EQ(mighty("/probe unshare user; /probe clone"), "EPERM\nok\n"); }

TEST(namespaces, unshare_user_and_mount)
{
    EXPECT_EQ(mighty("/probe unshare user+mount; unshare -Ur true 2>/dev/null || echo refused"),
              "EPERM\nrefused\n");
}

TEST(namespaces, unshare_every_other)
{
    EXPECT_EQ(mighty("for n in mount pid net ipc uts time cgroup; do /probe unshare $n; done | sort | uniq "
                     "-c | tr -s ' '; "
                     "/probe clone"),
              " 7 EPERM\nok\n");
}

TEST(namespaces, clone_into_every_new)
{
    EXPECT_EQ(mighty("for n in user mount pid net ipc uts cgroup; do /probe clone $n; done | sort | uniq -c "
                     "| tr -s ' '; "
                     "/probe clone"),
              " 7 EPERM\nok\n");
}

TEST(namespaces, clone3_into_new)
{
    EXPECT_EQ(mighty("/probe clone3 user; /probe clone3 mount; (echo forked)"), "ENOSYS\nENOSYS\nforked\n");
}

TEST(namespaces, enter_namespaces_of_pid_1)
{
    EXPECT_EQ(mighty("for n in mnt net user pid; do /probe setns /proc/1/ns/$n; done | grep -c ok; readlink "
                     "/proc/self/ns/net >/dev/null && echo ok"),
              "0\nok\n");
}

TEST(namespaces, enter_own_namespaces)
{
    EXPECT_EQ(mighty("/probe setns /proc/self/ns/net; /probe setns /proc/self/ns/uts; /probe setns "
                     "/proc/self/ns/user"),
              "EPERM\nEPERM\nEPERM\n");
}

TEST(namespaces, share_none_with_the_host)
{
    for (const char* name : {"mnt", "pid", "ipc", "uts", "net", "user", "cgroup"}) {
        const std::string link = std::string("/proc/self/ns/") + name;
        std::string host(64, '\0');
        host.resize(static_cast<std::size_t>(
            std::max<ssize_t>(0, ::readlink(link.c_str(), host.data(), host.size()))));
        EXPECT_NE(answer("readlink " + link), host + "\n") << name;
    }
}

TEST(namespaces, change_host_name)
{
    EXPECT_EQ(mighty("/probe host-name evil; /probe domain-name evil; hostname"), "EPERM\nEPERM\nsandbox\n");
    EXPECT_EQ(answer("hostname", {"--name", "box"}), "box\n");
}
