// What agents and their tools do all day must work behind all these walls.

#include <filesystem>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;

namespace {

bool have(const char* program) { return std::filesystem::exists(std::string("/usr/bin/") + program); }

} // namespace

TEST(ordinary_use, install_packages_into_home_and_usr_local)
{
    EXPECT_EQ(
        answer("mkdir -p ~/.local/lib/python3/site-packages/x ~/.cache/pip ~/node_modules/.bin "
               "/usr/local/lib/node && "
               "echo '#!/bin/sh\necho installed' >/usr/local/bin/tool && chmod +x /usr/local/bin/tool && "
               "ln -s /usr/local/bin/tool ~/node_modules/.bin/tool && ~/node_modules/.bin/tool",
               mightiest()),
        "installed\n");
    EXPECT_EQ(answer("mkdir -p ~/.local/bin ~/.npm && touch ~/.local/bin/x && echo ok"), "ok\n");
}

TEST(ordinary_use, commit_in_workspace)
{
    if (!have("git")) GTEST_SKIP() << "no git here; run: apt-get install git";
    const TempTree workspace;
    EXPECT_EQ(answer("git init -q . && git config user.email a@b && git config user.name a && echo x >f && "
                     "git add f && "
                     "git commit -qm first && git log --format=%s && git gc -q && git status --short",
                     {"--workspace", workspace.path()}),
              "first\n");
    EXPECT_TRUE(workspace.exists(".git/HEAD"));
}

TEST(ordinary_use, debug_own_child)
{
    EXPECT_EQ(answer("/probe debug-child"), "ok\n");
    if (!have("gdb")) return;
    EXPECT_THAT(
        answer("gdb -nx -batch -ex 'break _exit' -ex run -ex 'info threads' --args /bin/true 2>&1 | tail -3"),
        ::testing::HasSubstr("true"));
}

TEST(ordinary_use, start_processes_from_python)
{
    if (!have("python3")) GTEST_SKIP() << "no python3 here; run: apt-get install python3";
    EXPECT_EQ(
        answer(
            "python3 -c 'import subprocess, multiprocessing as m, tempfile, os\n"
            "print(subprocess.run([\"echo\", \"child\"], capture_output=True, text=True).stdout, end=\"\")\n"
            "print(m.Pool(2).map(abs, [-1, "
            "-2]))\nprint(tempfile.NamedTemporaryFile().name.startswith(\"/tmp\"))'"),
        "child\n[1, 2]\nTrue\n");
}

TEST(ordinary_use, serve_on_own_loopback)
{
    EXPECT_EQ(answer("/probe serve 127.0.0.1 8080; /probe serve ::1 3000; /probe serve 0.0.0.0 5000"),
              "ok\nok\nok\n");
}

TEST(ordinary_use, bind_low_port)
{
    EXPECT_EQ(answer("/probe serve 127.0.0.1 80; /probe serve 127.0.0.1 443"), "ok\nok\n");
}

TEST(ordinary_use, use_unix_sockets_and_pipes)
{
    EXPECT_EQ(answer("/probe serve-unix /tmp/s; /probe serve-unix @abstract; mkfifo p; (echo through >p &); "
                     "cat p; /probe "
                     "socketpair 1 1"),
              "ok\nok\nthrough\nok\n");
}

TEST(ordinary_use, start_daemons_and_jobs)
{
    EXPECT_EQ(answer("setsid sh -c 'echo $$ >pid; sleep 0.05; echo late >log' & sleep 0.02 & wait; cat log; "
                     "sleep 0.01 & "
                     "wait $! && echo waited"),
              "late\nwaited\n");
}

TEST(ordinary_use, use_terminal_inside)
{
    EXPECT_EQ(answer("/probe terminal; /probe window-size"), "ok\nok\n");
}

TEST(ordinary_use, manage_users_and_owners_as_root)
{
    if (!as_root()) {
        EXPECT_EQ(answer("/probe chown ~/.profile; id -un"), "EINVAL\nuser\n")
            << "one id inside, as documented";
        return;
    }
    EXPECT_EQ(
        answer("useradd -m tester && touch /srv/f && chown tester:tester /srv/f && stat -c %U /srv/f && "
               "setpriv --reuid=tester --regid=tester --init-groups id -un",
               {"-u", "root"}),
        "tester\ntester\n");
}

TEST(ordinary_use, unpack_archives)
{
    EXPECT_EQ(answer("mkdir a; echo x >a/f; ln a/f a/h; ln -s f a/l; chmod 4755 a/f; tar czf t a; rm -r a; "
                     "tar xzpf t; cat a/l; "
                     "stat -c '%a %h' a/f"),
              "x\n4755 2\n");
}

TEST(ordinary_use, write_everywhere_inside)
{
    EXPECT_EQ(
        answer(
            "for d in ~ /tmp /var/tmp /dev/shm; do echo x >$d/f && rm $d/f || echo no $d; done; echo done"),
        "done\n");
    EXPECT_EQ(answer("for d in /etc /usr/local /usr/local/bin /root /opt /srv /var/lib; do touch $d/f && rm "
                     "$d/f || echo no $d; "
                     "done; echo done",
                     mightiest()),
              "done\n");
}

TEST(ordinary_use, map_memory_and_threads)
{
    EXPECT_EQ(answer("/probe memory-bomb 64; sh -c 'exec sh -c \"echo nested\"'; head -c 1000000 "
                     "/dev/urandom | sha256sum | wc "
                     "-c"),
              "ok\nnested\n68\n");
}
