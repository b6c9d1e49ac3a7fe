// What a sandbox shares with the host and with other sandboxes: mount propagation, the state directory, the
// kernel's budgets for a user, its own first process.

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;

TEST(shared_mounts, leave_a_mount_on_the_host)
{
    if (!as_root()) GTEST_SKIP() << "a shared root needs a mount namespace of root's; run with --as=root";
    const TempTree tools;
    const TempTree tree;
    tree.file("sub/secret", "the secret");
    tools.file("p.json",
               R"({"extends": "workspace-write", "files": [{"deny": ":workspace_roots/sub/secret"}]})");
    // Most machines share their root's mounts; the place of a test need not.
    const std::string script = R"sh(
exec unshare -m --propagation shared sh -c 'before=$(wc -l </proc/self/mountinfo)
"$BERTH" "$@"
code=$?
echo "grown by $(($(wc -l </proc/self/mountinfo) - before))"
exit $code' sh "$@"
)sh";
    tools.file("berth", "#!/bin/sh\nexport BERTH=" + program() + script);
    ASSERT_EQ(::chmod(tools.at("berth").c_str(), 0755), 0);
    const auto ran =
        inside("cat sub/secret; echo ran", {"--workspace", tree.path(), "--policy", tools.at("p.json")},
               {.program = tools.at("berth")});
    EXPECT_EQ(ran.out, "ran\ngrown by 0\n") << ran.err;
    EXPECT_EQ(tree.read("sub/secret"), "the secret");
}

TEST(state_directory, look_into_it_through_a_mount_above)
{
    // It lies in the place of the tests.
    const auto looked = inside("cd /mnt/place; test -x probe && echo shown; ls -A state/; cat state/*; "
                               "find state -type s",
                               {"--mount", place() + ":/mnt/place:ro"});
    EXPECT_EQ(looked.out, "shown\n") << looked.err;
    const auto refused = inside("ls", {"--mount", state_directory() + "/sandbox:/mnt/place:ro"});
    EXPECT_EQ(refused.code, 125);
    EXPECT_THAT(refused.err, HasSubstr("state directory"));
}

TEST(budgets, use_up_those_of_the_user_outside)
{
    if (!as_root()) GTEST_SKIP() << "an ordinary user's sandbox has his own budget; run with --as=root";
    Running hog({}, R"sh(python3 -c "
import ctypes, sys
libc = ctypes.CDLL(None)
n = 0
while libc.inotify_init1(0) >= 0: n += 1
print('opened', n > 0, flush=True)
sys.stdin.read()")sh");
    EXPECT_EQ(hog.line(), "opened True");
    const int ours = ::inotify_init1(IN_CLOEXEC);
    EXPECT_GE(ours, 0) << "what is used inside is not the host's root's";
    if (ours >= 0) ::close(ours);
}

TEST(budgets, take_every_terminal)
{
    EXPECT_EQ(answer(R"sh(python3 -c "
import os
fds = []
try:
    while len(fds) < 2000: fds.append(os.open('/dev/ptmx', os.O_RDWR))
except OSError: pass
print(len(fds) <= 256, len(fds) > 10)")sh"),
              "True True\n");
}

TEST(first_process, starve_it)
{
    EXPECT_EQ(answer("prlimit --pid 1 --nofile=6:6 2>/dev/null && echo set; renice 5 -p 1 >/dev/null 2>&1 && "
                     "echo niced; taskset -p 1 1 >/dev/null 2>&1 && echo bound; prlimit --pid $$ "
                     "--nofile=100:100 && ulimit -n",
                     mightiest()),
              "100\n");
}

TEST(leases, make_a_writer_of_the_host_wait)
{
    const TempTree tree;
    tree.file("f", "as it was");
    EXPECT_EQ(answer(R"sh(python3 -c "
import errno, fcntl
try: fcntl.fcntl(open('f'), 1024, fcntl.F_RDLCK); print('leased')
except OSError as e: print(errno.errorcode[e.errno])")sh",
                     {"--workspace", tree.path() + ":ro"}),
              "EAGAIN\n");
}

TEST(live_view, send_to_a_socket_of_the_host)
{
    const auto tried = run({"--template", "live", "--policy", "read-only"}, {"python3", "-c", R"sh(
import errno, socket
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_STREAM | socket.SOCK_NONBLOCK):
    try: socket.socketpair(socket.AF_UNIX, kind); print('ok')
    except OSError as e: print(errno.errorcode[e.errno])
)sh"});
    EXPECT_EQ(tried.out, "EAFNOSUPPORT\nEAFNOSUPPORT\nok\n") << tried.err;
}

TEST(nested, give_a_file_of_the_host_capabilities)
{
    const TempTree tree;
    const TempTree policy;
    tree.file("tool", "x");
    policy.file("p.json", R"({"nested_namespaces": true})");
    const std::string set = R"sh(python3 -c "
import errno, os
try: os.setxattr('tool', 'user.mark', b'x'); print('set')
except OSError as e: print(errno.errorcode[e.errno])")sh";
    EXPECT_EQ(answer(set, {"--workspace", tree.path()}), "set\n") << "the file system could";
    EXPECT_EQ(answer(set, {"--workspace", tree.path(), "--policy", policy.at("p.json")}), "ENOTSUP\n");
}
