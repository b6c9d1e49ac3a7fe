// What the kernel tells about the whole machine. Whether a mask is needed is not left to the modes
// of the files: under every name below nothing of procfs may be found.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "sandbox.hpp"

using namespace security;

namespace {

class masks : public ::testing::TestWithParam<const char*> {};

} // namespace

TEST_P(masks, look_behind_mask)
{
    const std::string name = GetParam();
    if (!std::filesystem::exists("/proc/" + name))
        GTEST_SKIP() << "this kernel has no /proc/" << name << "; uname -r names it, another one may have it";
    EXPECT_EQ(answer("/probe masked " + name + "; /probe open-write /proc/" + name +
                         " >/dev/null; /probe masked " + name + "; cat /proc/uptime >/dev/null && echo ok",
                     mightiest()),
              "masked\nmasked\nok\n");
}

INSTANTIATE_TEST_SUITE_P(proc, masks,
                         ::testing::Values("cmdline", "kcore", "kallsyms", "keys", "latency_stats",
                                           "timer_list", "sched_debug", "sysrq-trigger", "scsi", "acpi",
                                           "irq", "bus", "fs"),
                         [](const auto& info) {
                             std::string name = info.param;
                             for (char& c : name)
                                 if (c == '-') c = '_';
                             return name;
                         });

TEST(proc, execute_from_proc)
{
    EXPECT_EQ(answer("grep ' /proc proc ' /proc/mounts | cut -d' ' -f4 | cut -d, -f1-4"),
              "rw,nosuid,nodev,noexec\n");
}

TEST(proc, learn_machine_id)
{
    const auto first = answer("cat /etc/machine-id");
    EXPECT_EQ(first.size(), 33u);
    EXPECT_NE(answer("cat /etc/machine-id"), first) << "each sandbox has its own";
    std::ifstream file("/etc/machine-id");
    std::string host;
    std::getline(file, host);
    EXPECT_NE(first, host + "\n");
}

TEST(proc, learn_boot_id)
{
    const std::string path = "/proc/sys/kernel/random/boot_id";
    const auto first = answer("cat " + path);
    EXPECT_EQ(first.size(), 37u);
    EXPECT_NE(answer("cat " + path), first) << "each start has its own";
    std::ifstream file(path);
    std::string host;
    std::getline(file, host);
    EXPECT_NE(first, host + "\n");
    EXPECT_EQ(answer("(echo x > " + path + ") 2>/dev/null; (chmod 666 " + path + ") 2>/dev/null; echo $?"),
              "1\n");
}

TEST(proc, learn_host_name)
{
    char name[256] = {};
    ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
    EXPECT_EQ(answer("hostname; cat /proc/sys/kernel/hostname /etc/hostname"), "sandbox\nsandbox\nsandbox\n");
    EXPECT_STRNE(name, "sandbox") << "a host of this name would prove nothing";
}

TEST(proc, read_variables_of_the_caller)
{
    const Around around{
        .env = {{"SECRET_TOKEN", "hunter2"}, {"AWS_SECRET_ACCESS_KEY", "hunter2"}, {"PASSED", "on"}}};
    EXPECT_EQ(answer("env | grep -c hunter2; cat /proc/[0-9]*/environ 2>/dev/null | grep -c hunter2; echo "
                     "$PASSED $GIVEN",
                     {"-e", "PASSED", "-e", "GIVEN=too"}, around),
              "0\n0\non too\n");
}

TEST(proc, read_command_line_of_berth)
{
    const auto seen = answer(
        "cat /proc/1/cmdline /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c [-]-data; true");
    EXPECT_EQ(seen, "0\n");
}

TEST(proc, find_host_directories_in_mount_options)
{
    // Layers are named relative to a directory that exists only in the sandbox's own mount namespace.
    EXPECT_EQ(answer("grep -c " + place() + " /proc/mounts; true"), "0\n");
}
