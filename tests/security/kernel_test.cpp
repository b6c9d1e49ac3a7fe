// The kernel's larger surfaces, each as the mightiest user inside.

#include <gtest/gtest.h>

#include "sandbox.hpp"

using namespace security;

namespace {

std::string mighty(const std::string& script) { return answer(script, mightiest()); }

} // namespace

TEST(kernel, set_up_io_uring) { EXPECT_EQ(mighty("/probe io-uring; /probe epoll"), "EPERM\nok\n"); }
TEST(kernel, load_bpf_map) { EXPECT_EQ(mighty("/probe bpf; /probe epoll"), "EPERM\nok\n"); }
TEST(kernel, open_perf_event)
{
    EXPECT_EQ(mighty("/probe perf; date +%Y >/dev/null && echo ok"), "EPERM\nok\n");
}
TEST(kernel, catch_page_faults)
{
    EXPECT_EQ(mighty("/probe userfaultfd; /probe memory-bomb 1"), "EPERM\nok\n");
}
TEST(kernel, watch_file_systems)
{
    EXPECT_EQ(mighty("/probe fanotify; /probe open-read /etc/passwd"), "EPERM\nok\n");
}

TEST(kernel, use_key_rings)
{
    EXPECT_EQ(mighty("/probe add-key; /probe request-key; /probe keyctl; echo secret >/tmp/k && cat /tmp/k"),
              "EPERM\nEPERM\nEPERM\nsecret\n");
}

TEST(kernel, load_module_or_kernel)
{
    EXPECT_EQ(mighty("/probe load-module; /probe kexec; uname -s"), "EPERM\nEPERM\nLinux\n");
}

TEST(kernel, reboot_or_swap)
{
    EXPECT_EQ(mighty("/probe reboot; /probe swapon; /probe acct; /probe quotactl"),
              "EPERM\nEPERM\nEPERM\nEPERM\n");
}

TEST(kernel, read_kernel_log)
{
    EXPECT_EQ(mighty("/probe syslog; dmesg 2>/dev/null | wc -l; logger x 2>/dev/null; echo ok"),
              "EPERM\n0\nok\n");
}

TEST(kernel, set_clock)
{
    EXPECT_EQ(mighty("/probe set-clock; touch -d 2001-02-03 f && date -r f +%F"), "EPERM\n2001-02-03\n");
}
TEST(kernel, reach_io_ports)
{
    EXPECT_EQ(mighty("/probe iopl; /probe mempolicy; nproc >/dev/null && echo ok"), "EPERM\nEPERM\nok\n");
}

TEST(kernel, change_personality)
{
    // READ_IMPLIES_EXEC weakens; ADDR_NO_RANDOMIZE is what debuggers ask for.
    EXPECT_EQ(mighty("/probe personality 0400000; /probe personality 0040000; /probe personality ffffffff"),
              "EPERM\nok\nok\n");
}

TEST(kernel, call_by_i386_numbers) { EXPECT_EQ(mighty("/probe i386; echo after"), "killed SYS\nafter\n"); }

TEST(kernel, call_by_x32_numbers)
{
    EXPECT_EQ(mighty("/probe x32; /probe x32-mount; /probe clone"), "ENOSYS\nENOSYS\nok\n");
}

TEST(kernel, type_into_terminal)
{
    EXPECT_EQ(
        mighty("/probe tiocsti; /probe tiocsti-high; /probe tioclinux; /probe window-size; /probe terminal"),
        "EPERM\nEPERM\nEPERM\nok\nok\n");
}

TEST(kernel, raise_priority) { EXPECT_EQ(mighty("/probe priority; nice -n 5 echo ok"), "EACCES\nok\n"); }
