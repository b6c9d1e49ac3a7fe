#include "sys/launch.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io.hpp"
#include "sys/child.hpp"
#include "temp_dir.hpp"

namespace berth::sys {
namespace {

using ::testing::HasSubstr;

ExitStatus end_of(Launched launched)
{
    auto child = Child::own(launched.pid, std::move(launched.pidfd));
    const auto status = child.wait();
    EXPECT_TRUE(status) << status.error().line();
    return status.value_or(ExitStatus::unknown());
}

struct Pipe {
    UniqueFd read, write;
    Pipe()
    {
        int ends[2];
        if (::pipe2(&ends[0], O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
        read.reset(ends[0]);
        write.reset(ends[1]);
    }
    std::string drain()
    {
        write.reset();
        return read_to_end(read.get(), 1_MiB, "a pipe").value_or("failed");
    }
};

TEST(Launch, RunsAProgram)
{
    StepList list;
    list.exec_path({"/bin/true"}, {"true"}, {});
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
}

/// A tmpfs at /tmp with an empty directory "d", an empty file "f" and two trees to cover things with, in a
/// mount namespace of its own.
StepList covers(bool user)
{
    StepList list;
    if (user) {
        list.write_file("/proc/self/setgroups", "deny");
        list.write_file("/proc/self/uid_map", fmt::format("0 {} 1", ::geteuid()));
        list.write_file("/proc/self/gid_map", fmt::format("0 {} 1", ::getegid()));
    }
    list.make_private();
    list.mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m");
    for (const char* name : {"/tmp/d", "/tmp/over"}) list.mkdir(name, 0755);
    for (const char* name : {"/tmp/f", "/tmp/over/inside", "/tmp/cover"})
        list.make_file(name, "", 0644, ~0ull, ~0ull);
    return list;
}

std::uint64_t mount_namespace(bool user) { return CLONE_NEWNS | (user ? CLONE_NEWUSER : 0); }

TEST(Launch, CoversAPlaceByWhatFitsIt)
{
    const bool user = ::geteuid() != 0;
    StepList list = covers(user);
    for (const char* place : {"/tmp/d", "/tmp/f", "/tmp/missing"}) {
        const Slot directory = list.cover_tree("/tmp/over", place, Leaf::Directory);
        const Slot file = list.cover_tree("/tmp/cover", place, Leaf::File);
        list.cover(place, directory, file);
    }
    list.exec_path({"/bin/sh"},
                   {"sh", "-c", "test -e /tmp/d/inside && test -f /tmp/f && ! test -e /tmp/missing"}, {});
    auto launched = launch(list, {.namespaces = mount_namespace(user)});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
}

TEST(Launch, FailsWhereAPlaceToCoverBecameAnotherKindOfThing)
{
    const bool user = ::geteuid() != 0;
    StepList list = covers(user);
    const Slot directory = list.cover_tree("/tmp/over", "/tmp/d", Leaf::Directory);
    const Slot file = list.cover_tree("/tmp/cover", "/tmp/d", Leaf::File);
    list.say("covering it");
    list.cover("/tmp/f", directory, file);
    list.exec_path({"/bin/true"}, {"true"}, {});
    const auto launched = launch(list, {.namespaces = mount_namespace(user)});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().sys.value(), ESTALE) << launched.error().line();
    EXPECT_THAT(launched.error().message, HasSubstr("covering it"));
}

TEST(Launch, TellsTheExitCodeOfTheProgram)
{
    StepList list;
    list.exec_path({"/bin/sh"}, {"sh", "-c", "exit 7"}, {});
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_EQ(end_of(*std::move(launched)).code(), 7);
}

TEST(Launch, TriesTheCandidatesInOrder)
{
    StepList list;
    list.exec_path({"/none/true", "/etc/passwd/true", "/bin/true"}, {"true"}, {});
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
}

TEST(Launch, NamesTheStepThatFailed)
{
    StepList list;
    list.say("setting the mask").umask(022);
    list.say("entering the void").chdir("/no/such/place");
    list.say("starting the program").exec_path({"/bin/true"}, {"true"}, {});
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().code, Code::NotFound);
    EXPECT_THAT(launched.error().message, HasSubstr("entering the void"));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG | __WALL), -1) << "the child that failed is reaped";
}

TEST(Launch, SaysWhenThereIsNoSuchProgram)
{
    StepList list;
    list.say("starting the program").exec_path({"/none/a", "/none/b"}, {"a"}, {});
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().sys.value(), ENOENT);
    EXPECT_THAT(launched.error().message, HasSubstr("starting the program"));
}

TEST(Launch, GoesOnAfterAToleratedFailure)
{
    const TempDir dir;
    StepList list;
    list.mkdir(dir.path(), 0700, EEXIST);
    list.mkdir(dir / "made", 0700);
    list.exec_path({"/bin/true"}, {"true"}, {});
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    EXPECT_TRUE(dir.has("made"));
}

TEST(Launch, GivesTheProgramItsDescriptorsArgumentsAndEnvironment)
{
    Pipe out;
    StepList list;
    const Slot write = list.borrow(out.write.get());
    list.dup(write, 1);
    list.close_on_exec_from(3);
    list.exec_path({"/bin/sh"}, {"sh", "-c", "echo \"$0 $1 $NAME\"; ls /proc/self/fd | wc -l", "zero", "a b"},
                   {"NAME=value", "PATH=/usr/bin:/bin"});
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    EXPECT_EQ(out.drain(), "zero a b value\n4\n") << "0, 1, 2 and the directory that ls reads";
}

TEST(Launch, MovesDescriptorsOutOfTheProgramsWay)
{
    // Descriptor 1 of the program is given from a slot that stands at 0 in this process.
    Pipe out;
    const UniqueFd kept(::fcntl(0, F_DUPFD_CLOEXEC, 10));
    ASSERT_EQ(::dup2(out.write.get(), 0), 0);
    StepList list;
    const Slot write = list.borrow(0);
    list.dup(write, 1);
    list.exec_path({"/bin/echo"}, {"echo", "moved"}, {});
    auto launched = launch(list, {});
    if (kept)
        ::dup2(kept.get(), 0);
    else
        ::close(0);
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    EXPECT_EQ(out.drain(), "moved\n");
}

TEST(Launch, RunsNestedBlocksToTheirEnd)
{
    const TempDir dir;
    StepList list;
    list.say("outer").mkdir(dir / "one", 0700);
    list.clone(0, 1, 0);
    list.wait_child();
    list.mkdir(dir / "two/three/after", 0700);
    list.exec_path({"/bin/true"}, {"true"}, {});
    list.begin_block();
    list.say("inner").mkdir(dir / "two", 0700);
    list.clone(0, 2, 0);
    list.wait_child();
    list.begin_block();
    list.say("innermost").mkdir(dir / "two/three", 0700);
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    EXPECT_TRUE(dir.has("two/three/after"));
}

TEST(Launch, NamesTheStepThatFailedInANestedBlock)
{
    StepList list;
    list.say("outer").clone(0, 1, 0);
    list.wait_child();
    list.exec_path({"/bin/true"}, {"true"}, {});
    list.begin_block();
    list.say("inner").chdir("/no/such/place");
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_EQ(launched.error().sys.value(), ENOENT);
    EXPECT_THAT(launched.error().message, HasSubstr("inner"));
}

TEST(Launch, RefusesBlocksNestedTooDeep)
{
    StepList list;
    list.clone(0, 1, 0);
    list.begin_block();
    list.clone(0, 2, 0);
    list.begin_block();
    list.say("one too many").clone(0, 3, 0);
    list.begin_block();
    list.umask(022);
    const auto launched = launch(list, {});
    ASSERT_FALSE(launched);
    EXPECT_THAT(launched.error().message, HasSubstr("one too many"));
}

TEST(Launch, LeavesNoTraceInTheLauncher)
{
    char before[4096];
    ASSERT_NE(::getcwd(&before[0], sizeof before), nullptr);
    const mode_t mask = ::umask(022);
    StepList list;
    list.umask(077);
    list.chdir("/");
    list.new_session();
    list.exec_path({"/bin/true"}, {"true"}, {});
    sigset_t blocked;
    auto launched = launch(list, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    char after[4096];
    ASSERT_NE(::getcwd(&after[0], sizeof after), nullptr);
    EXPECT_STREQ(after, before);
    EXPECT_EQ(::umask(mask), 022u);
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(::sigismember(&blocked, SIGTERM), 0);
}

TEST(Launch, WorksFromSeveralThreadsAtOnce)
{
    std::atomic<int> good = 0;
    const auto work = [&] {
        for (int i = 0; i < 20; ++i) {
            StepList list;
            list.exec_path({"/bin/sh"}, {"sh", "-c", "exit 3"}, {});
            auto launched = launch(list, {});
            if (launched && end_of(*std::move(launched)).code() == 3) ++good;
        }
    };
    std::thread one(work);
    std::thread two(work);
    one.join();
    two.join();
    EXPECT_EQ(good, 40);
}

TEST(Launch, GoesTheSameThroughTheCodec)
{
    Pipe out;
    StepList list;
    const Slot write = list.borrow(out.write.get());
    list.dup(write, 1);
    list.exec_path({"/bin/echo"}, {"echo", "decoded"}, {});
    std::vector<UniqueFd> fds;
    for (const int fd : list.travelling()) fds.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    auto decoded = StepList::decode(list.encode(), std::move(fds));
    ASSERT_TRUE(decoded) << decoded.error().line();
    auto launched = launch(*decoded, {});
    ASSERT_TRUE(launched) << launched.error().line();
    EXPECT_TRUE(end_of(*std::move(launched)).success());
    decoded = fail(Code::Internal, "done"); // it owns a copy of the pipe's end
    EXPECT_EQ(out.drain(), "decoded\n");
}

} // namespace
} // namespace berth::sys
