#include "sys/cgroup.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "support/tsan.hpp"
#include "sys/cgroup_maker.hpp"
#include "sys/child.hpp"
#include "sys/group_memory.hpp"
#include "sys/socket.hpp"

namespace berth::sys {
namespace {

using namespace std::chrono_literals;

/// A parent of this test's own, so that nothing else that runs meanwhile is touched.
CgroupOptions own_parent()
{
    return {.parent = fmt::format("berth-test-{}", ::getpid()), .move_self = MoveSelf::Never};
}

struct Groups : testing::Test {
    CgroupTree tree = CgroupTree::open(own_parent());
    void SetUp() override
    {
        if (!tree.leaf().available() && !tree.of(Controller::Freezer).available())
            GTEST_SKIP() << "no groups: " << tree.leaf().lack.reason << "; enable with: sudo unit_sys";
    }
    void TearDown() override { tree.remove_parents(); }
    void need(Controller c) const
    {
        if (!tree.of(c).available())
            GTEST_SKIP() << to_string(c) << ": " << tree.of(c).lack.reason << "; " << tree.of(c).lack.remedy;
    }
};

/// Runs `body` in a child that was born in the group, as the launch does it.
Child spawn_in(const SandboxGroup& group, const std::function<int()>& body)
{
    const auto tasks = group.birth_tasks();
    clone_args args{};
    args.exit_signal = SIGCHLD;
    if (group.birth_directory() >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = static_cast<__u64>(group.birth_directory());
    }
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
    if (pid == 0) {
        for (const int fd : tasks)
            if (::write(fd, "0", 1) != 1) ::_exit(98);
        ::_exit(body());
    }
    EXPECT_GT(pid, 0) << std::strerror(errno);
    return *Child::adopt(pid);
}

int wait_for_ever()
{
    for (;;) ::pause();
}

std::size_t populated(const SandboxGroup& group)
{
    std::string path = group.places().v2.empty() ? group.places().distinct_v1().front() : group.places().v2;
    return processes_in(path)->size();
}

std::vector<std::string> directories(const GroupPlaces& places)
{
    auto paths = places.distinct_v1();
    if (!places.v2.empty()) paths.push_back(places.v2);
    return paths;
}

bool exist(const GroupPlaces& places)
{
    for (const auto& path : directories(places))
        if (::access(path.c_str(), F_OK) == 0) return true;
    return false;
}

TEST(Maker, IsReadBackFromTheNameOfItsGroup)
{
    const Maker me = this_process();
    EXPECT_GT(me.start_time, 0u);
    EXPECT_GT(me.pid_namespace, 0u);
    EXPECT_EQ(maker_of(group_name(me, "sbx_1-a")), me);
    EXPECT_TRUE(may_be_alive(me));
    Maker former = me;
    --former.start_time;
    EXPECT_FALSE(may_be_alive(former)) << "the number is ours, the process was another";
    Maker foreign = former;
    ++foreign.pid_namespace;
    EXPECT_TRUE(may_be_alive(foreign)) << "numbers of another namespace mean nothing here";
}

TEST(Maker, IsNotReadFromForeignNames)
{
    for (const char* name : {"berth", "berth-", "berth-keep-sbx_1", "berth-self", "docker-12-13-14-x",
                             "berth-1-2-x", "berth-1-2-3", "berth-1-2-3-", "berth--1-2-3-x", "berth-0-2-3-x",
                             "berth-1-2-zz-x", "xberth-1-2-3-x"})
        EXPECT_FALSE(maker_of(name)) << name;
}

TEST(CgroupTreeWithoutGroups, SaysSoWithTheRemedy)
{
    const auto tree = CgroupTree::open(CgroupLayout{}, {});
    EXPECT_FALSE(tree.usable());
    for (const auto c : kControllers) {
        EXPECT_FALSE(tree.of(c).available());
        EXPECT_FALSE(tree.of(c).lack.reason.empty());
        EXPECT_FALSE(tree.of(c).lack.remedy.empty());
    }
    const auto made = tree.make("x", {.memory = 1_MiB, .pids = 5});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::Unsupported);
    EXPECT_NE(made.error().message.find("memory"), std::string::npos);
    EXPECT_NE(made.error().message.find("pids"), std::string::npos) << "every unmet limit is named";
    EXPECT_EQ(tree.make("x", {}).error().code, Code::Unsupported);
}

TEST(CgroupTreeOfAnOrdinaryUser, HasWhatIsDelegatedOrARemedy)
{
    if (::geteuid() == 0)
        GTEST_SKIP() << "root may write everywhere; enable with: setpriv --reuid=1000 --regid=1000 "
                        "--clear-groups unit_sys";
    const auto tree = CgroupTree::open(own_parent());
    for (const auto c : kControllers)
        if (!tree.of(c).available()) EXPECT_FALSE(tree.of(c).lack.remedy.empty()) << to_string(c);
}

TEST_F(Groups, AreNamedAfterTheirMakerAndGoWithTheirOwner)
{
    GroupPlaces places;
    {
        const auto group = tree.make("one", {});
        ASSERT_TRUE(group) << group.error().line();
        places = group->places();
        ASSERT_TRUE(exist(places));
        for (const auto& path : directories(places))
            EXPECT_EQ(maker_of(path.substr(path.rfind('/') + 1)), this_process()) << path;
    }
    EXPECT_FALSE(exist(places));
}

TEST_F(Groups, RefuseNamesThatArePaths)
{
    for (const char* bad : {"", "..", "a/b", ".hidden", "a b", "a\nb"})
        EXPECT_EQ(tree.make(bad, {}).error().code, Code::Invalid) << bad;
}

TEST_F(Groups, KillEverythingInThemWhenForgotten)
{
    std::optional<Child> child;
    {
        const auto group = tree.make("forgotten", {});
        ASSERT_TRUE(group);
        child = spawn_in(*group, wait_for_ever);
    }
    EXPECT_EQ(child->wait()->signal(), SIGKILL);
}

TEST_F(Groups, KillReachesWhatDaemonized)
{
    auto group = tree.make("daemon", {});
    ASSERT_TRUE(group);
    auto [ours, theirs] = *socket_pair(SocketKind::SeqPacket);
    auto child = spawn_in(*group, [&] {
        const pid_t middle = ::fork();
        if (middle == 0) {
            ::setsid();
            if (::fork() == 0) {
                static_cast<void>(send_message(theirs.get(), "up"));
                wait_for_ever();
            }
            ::_exit(0);
        }
        ::waitpid(middle, nullptr, 0); // only the daemon is left when we are
        return 0;
    });
    ASSERT_EQ(receive_message(ours.get(), 16_B)->bytes, "up");
    ASSERT_EQ(child.wait()->code(), 0);
    ASSERT_EQ(populated(*group), 1u);
    theirs.reset();
    const auto killed = group->kill_all();
    ASSERT_TRUE(killed) << killed.error().line();
    EXPECT_EQ(populated(*group), 0u);
    EXPECT_TRUE(receive_message(ours.get(), 16_B)->bytes.empty()) << "the daemon still holds its end";
    EXPECT_TRUE(group->remove());
}

TEST_F(Groups, KillCatchesAForkBomb)
{
    need(Controller::Pids);
    if (IsSkipped()) return;
    auto group = tree.make("bomb", {.pids = 50});
    ASSERT_TRUE(group) << group.error().line();
    auto child = spawn_in(*group, []() -> int {
        for (;;) ::fork();
    });
    ASSERT_TRUE(wait_until(10s, [&] { return group->pids_max_events().value_or(0) > 0; }));
    EXPECT_LE(populated(*group), 50u);
    const auto killed = group->kill_all();
    ASSERT_TRUE(killed) << killed.error().line();
    EXPECT_EQ(populated(*group), 0u);
}

TEST_F(Groups, TheMemoryLimitKills)
{
    need(Controller::Memory);
    if (IsSkipped()) return;
    const auto group = tree.make("memory", {.memory = 32_MiB});
    ASSERT_TRUE(group) << group.error().line();
    ASSERT_EQ(*group->oom_kills(), 0u);
    auto child = spawn_in(*group, [] {
        constexpr std::size_t kSize = std::size_t{256} << 20;
        void* const memory =
            ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        std::memset(memory, 1, kSize);
        return 0;
    });
    EXPECT_EQ(child.wait()->signal(), SIGKILL);
    EXPECT_EQ(*group->oom_kills(), 1u);
    const auto peak = group->memory_peak();
    ASSERT_TRUE(peak) << peak.error().line();
    EXPECT_LE(peak->count, (32_MiB).count);
    EXPECT_GT(peak->count, (16_MiB).count);
    EXPECT_TRUE(group->memory_current());
}

/// With a limit the group counts, without one its processes are asked.
TEST_F(Groups, WhatIsInMemoryIsTold)
{
    BERTH_NEEDS_ONE_THREAD();
    std::vector<GroupLimits> ways{{}};
    if (tree.of(Controller::Memory).available()) ways.push_back({.memory = 256_MiB});
    for (const auto& limits : ways) {
        auto group = tree.make("held", limits);
        ASSERT_TRUE(group) << group.error().line();
        int ready[2];
        ASSERT_EQ(::pipe2(&ready[0], O_CLOEXEC), 0);
        const UniqueFd come(ready[0]);
        UniqueFd go(ready[1]);
        auto child = spawn_in(*group, [&] {
            constexpr std::size_t kSize = std::size_t{64} << 20;
            void* const memory =
                ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            std::memset(memory, 1, kSize);
            if (::write(go.get(), "x", 1) != 1) return 1;
            return wait_for_ever();
        });
        go.reset();
        char byte = 0;
        ASSERT_EQ(::read(come.get(), &byte, 1), 1);
        const auto told = memory_of(group->places());
        ASSERT_TRUE(told) << told.error().line();
        EXPECT_GE(told->used, 60_MiB) << limits.memory.has_value();
        EXPECT_LE(told->used, 128_MiB) << limits.memory.has_value();
        EXPECT_TRUE(group->kill_all());
        EXPECT_EQ(child.wait()->signal(), SIGKILL);
        EXPECT_TRUE(group->remove());
    }
    EXPECT_FALSE(memory_of({})) << "there is nothing to look into";
}

TEST_F(Groups, TheMemoryLimitCanBeRaisedAndLowered)
{
    need(Controller::Memory);
    if (IsSkipped()) return;
    auto group = tree.make("memory2", {.memory = 32_MiB});
    ASSERT_TRUE(group);
    for (const Bytes limit : {128_MiB, 16_MiB, 64_MiB}) {
        const auto set = group->set_limits({.memory = limit});
        ASSERT_TRUE(set) << set.error().line();
    }
}

TEST_F(Groups, ThePidsLimitRefusesAndCounts)
{
    BERTH_NEEDS_ONE_THREAD();
    need(Controller::Pids);
    if (IsSkipped()) return;
    const auto group = tree.make("pids", {.pids = 3});
    ASSERT_TRUE(group);
    auto child = spawn_in(*group, [] {
        int made = 0;
        for (int i = 0; i < 10; ++i) {
            const pid_t pid = ::fork();
            if (pid == 0) wait_for_ever();
            if (pid > 0) ++made;
        }
        return made; // the others die with the group
    });
    EXPECT_EQ(child.wait()->code(), 2);
    EXPECT_EQ(*group->pids_max_events(), 8u);
}

TEST_F(Groups, TheCpuLimitIsWritten)
{
    need(Controller::Cpu);
    if (IsSkipped()) return;
    const auto group = tree.make("cpu", {.cpus = 0.5, .cpu_weight = 50});
    ASSERT_TRUE(group) << group.error().line();
    const auto& v1 = group->places().v1[index(Controller::Cpu)];
    if (v1.empty()) {
        EXPECT_EQ(*read_file(group->places().v2 + "/cpu.max"), "50000 100000\n");
        EXPECT_EQ(*read_file(group->places().v2 + "/cpu.weight"), "50\n");
    } else {
        EXPECT_EQ(*read_file(v1 + "/cpu.cfs_quota_us"), "50000\n");
        EXPECT_EQ(*read_file(v1 + "/cpu.shares"), "512\n");
    }
}

TEST_F(Groups, FreezeStopsAndThawGoesOn)
{
    auto group = tree.make("freeze", {});
    ASSERT_TRUE(group);
    auto* const counter = static_cast<std::atomic<unsigned long>*>(
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(counter, MAP_FAILED);
    const ScopeExit unmap([&] { ::munmap(counter, 4096); });
    auto child = spawn_in(*group, [&]() -> int {
        for (;;) ++*counter;
    });
    ASSERT_TRUE(wait_until(10s, [&] { return *counter > 0; }));
    const auto frozen = group->freeze();
    ASSERT_TRUE(frozen) << frozen.error().line();
    EXPECT_TRUE(*group->frozen());
    const unsigned long at = *counter;
    EXPECT_FALSE(wait_until(50ms, [&] { return *counter != at; })) << "it went on";
    ASSERT_TRUE(group->thaw());
    EXPECT_FALSE(*group->frozen());
    EXPECT_TRUE(wait_until(10s, [&] { return *counter != at; }));
    ASSERT_TRUE(group->freeze());
    ASSERT_TRUE(group->kill_all()) << "frozen ones die too";
    EXPECT_EQ(child.wait()->signal(), SIGKILL);
}

TEST_F(Groups, AnEmptyGroupFreezes)
{
    auto group = tree.make("empty", {});
    ASSERT_TRUE(group);
    EXPECT_TRUE(group->freeze());
    EXPECT_TRUE(group->thaw());
    EXPECT_TRUE(group->kill_all());
}

TEST_F(Groups, SweepTakesWhatADeadMakerLeftAndNothingElse)
{
    auto mine = tree.make(
        "mine", {.pids = tree.of(Controller::Pids).available() ? std::optional(9ul) : std::nullopt});
    ASSERT_TRUE(mine);
    auto kept = tree.make_kept("sbx_sweep", {});
    ASSERT_TRUE(kept) << kept.error().line();
    const ScopeExit gone([&] { static_cast<void>(KeptGroup::remove(kept->places())); });
    const std::string foreign = directories(mine->places()).front();
    const std::string other = foreign.substr(0, foreign.rfind('/')) + "/somebody-else";
    ASSERT_EQ(::mkdir(other.c_str(), 0755), 0);
    const ScopeExit remove_other([&] { ::rmdir(other.c_str()); });

    // A maker that is killed with a group that still has a process in it.
    auto [ours, theirs] = *socket_pair(SocketKind::SeqPacket);
    const pid_t pid = ::fork();
    if (pid == 0) {
        auto left =
            tree.make("left", {.pids = mine->birth_tasks().empty() ? std::nullopt : std::optional(9ul)});
        if (!left) ::_exit(1);
        const Child inside = spawn_in(*left, wait_for_ever);
        const std::string name = directories(left->places()).front();
        static_cast<void>(send_message(theirs.get(), fmt::format("{} {}", inside.pid(), name)));
        wait_for_ever();
    }
    auto maker = Child::adopt(pid);
    const auto told = receive_message(ours.get(), 4_KiB);
    ASSERT_TRUE(told);
    const auto space = told->bytes.find(' ');
    const pid_t inside = std::stoi(told->bytes.substr(0, space));
    const std::string path = told->bytes.substr(space + 1);
    const std::string name = path.substr(path.rfind('/') + 1);
    EXPECT_TRUE(tree.sweep().empty()) << "its maker lives";
    ASSERT_TRUE(maker->signal(SIGKILL));
    ASSERT_TRUE(maker->wait());
    ASSERT_EQ(::access(path.c_str(), F_OK), 0);

    EXPECT_TRUE(tree.sweep([&](std::string_view group) { return group == name; }).empty())
        << "somebody claims it";
    EXPECT_EQ(tree.sweep(), std::vector<std::string>{name});
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
    EXPECT_TRUE(wait_until(10s, [&] {
        return ::kill(inside, 0) != 0 ||
               read_file(fmt::format("/proc/{}/stat", inside))->find(") Z ") != std::string::npos;
    }));
    EXPECT_TRUE(exist(mine->places()));
    EXPECT_TRUE(exist(kept->places()));
    EXPECT_EQ(::access(other.c_str(), F_OK), 0);
}

TEST_F(Groups, AKeptSandboxKeepsItsKeeperOutsideLimitsAndFreeze)
{
    if (!tree.leaf().available()) GTEST_SKIP() << "needs a v2 leaf: " << tree.leaf().lack.remedy;
    GroupLimits limits;
    if (tree.of(Controller::Pids).available()) limits.pids = 20;
    auto kept = tree.make_kept("sbx_kept", limits);
    ASSERT_TRUE(kept) << kept.error().line();
    const auto places = kept->places();
    const ScopeExit gone([&] { static_cast<void>(KeptGroup::remove(places)); });
    EXPECT_EQ(tree.make_kept("sbx_kept", limits).error().code, Code::Conflict);
    ASSERT_TRUE(exist(places)) << "a refused second one must not remove the first";

    auto exec = kept->make_exec("exec_1");
    ASSERT_TRUE(exec) << exec.error().line();
    auto command = spawn_in(*exec, wait_for_ever);
    EXPECT_EQ(processes_in(places.v2 + "/k")->size(), 0u);
    EXPECT_EQ(processes_in(places.v2 + "/x/exec_1")->size(), 1u);
    ASSERT_TRUE(kept->execs().freeze());
    EXPECT_EQ(keyed_value(*read_file(places.v2 + "/x/exec_1/cgroup.events"), "frozen"), 1u);
    EXPECT_EQ(keyed_value(*read_file(places.v2 + "/k/cgroup.events"), "frozen"), 0u);
    ASSERT_TRUE(kept->execs().thaw());

    // Another process finds it by what the record says, and the exec by name.
    auto again = KeptGroup::open(places);
    ASSERT_TRUE(again) << again.error().line();
    auto found = again->open_exec("exec_1");
    ASSERT_TRUE(found);
    ASSERT_TRUE(found->kill_all());
    EXPECT_EQ(command.wait()->signal(), SIGKILL);
    ASSERT_TRUE(found->remove());

    ASSERT_TRUE(KeptGroup::remove(places));
    EXPECT_FALSE(exist(places));
    EXPECT_TRUE(KeptGroup::remove(places)) << "already gone is success";
}

TEST_F(Groups, AMappedKeeperNeedsExactlyTheTwoDelegatedFiles)
{
    if (!tree.leaf().available() || ::geteuid() != 0)
        GTEST_SKIP() << "needs root and a v2 leaf; enable with: sudo unit_sys";
    auto kept = tree.make_kept("sbx_delegated", {});
    ASSERT_TRUE(kept) << kept.error().line();
    const ScopeExit gone([&] { static_cast<void>(KeptGroup::remove(kept->places())); });
    auto exec = kept->make_exec("exec_1");
    ASSERT_TRUE(exec);
    constexpr uid_t kMapped = 1'879'048'192;
    // A keeper with mapped ids, born in k, tries to bring a child into the exec's group.
    const auto try_it = [&] {
        clone_args args{};
        args.exit_signal = SIGCHLD;
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = static_cast<__u64>(kept->keeper_directory());
        const auto keeper = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
        if (keeper == 0) {
            if (::setresgid(kMapped, kMapped, kMapped) != 0 || ::setresuid(kMapped, kMapped, kMapped) != 0)
                ::_exit(97);
            args.cgroup = static_cast<__u64>(exec->birth_directory());
            const auto child = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
            if (child == 0) ::_exit(0);
            ::_exit(child > 0 ? 0 : errno);
        }
        return Child::adopt(keeper)->wait()->code();
    };
    EXPECT_EQ(try_it(), EACCES);
    ASSERT_TRUE(exec->delegate(kMapped, kMapped));
    EXPECT_EQ(try_it(), EACCES) << "the target alone is not enough";
    ASSERT_TRUE(kept->delegate(kMapped, kMapped));
    EXPECT_EQ(try_it(), 0);
    struct stat st{};
    ASSERT_EQ(::stat((kept->places().v2 + "/cgroup.subtree_control").c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, 0u) << "nothing else changed hands";
}

TEST_F(Groups, OnlyKeptGroupsCanBeRemovedByName)
{
    const auto mine = tree.make("mine", {});
    ASSERT_TRUE(mine);
    EXPECT_EQ(KeptGroup::remove(mine->places()).error().code, Code::Invalid);
    EXPECT_EQ(KeptGroup::remove(GroupPlaces{.v2 = "/sys/fs/cgroup"}).error().code, Code::Invalid);
    EXPECT_EQ(KeptGroup::remove(GroupPlaces{}).error().code, Code::Invalid);
    EXPECT_TRUE(exist(mine->places()));
}

TEST_F(Groups, WithoutV2TheV1HierarchiesDoTheSame)
{
    auto layout = parse_layout(*read_file("/proc/self/cgroup"), *read_file("/proc/self/mountinfo"));
    layout.v2.reset();
    const auto v1 = CgroupTree::open(layout, own_parent());
    if (!v1.of(Controller::Freezer).available())
        GTEST_SKIP() << "no v1 freezer here; enable with: mount -t cgroup -o freezer none <dir>";
    const ScopeExit tidy([&] { v1.remove_parents(); });
    auto group = v1.make("v1", {});
    ASSERT_TRUE(group) << group.error().line();
    EXPECT_EQ(group->birth_directory(), -1);
    auto child = spawn_in(*group, [] {
        for (int i = 0; i < 20; ++i)
            if (::fork() == 0) wait_for_ever();
        return wait_for_ever();
    });
    ASSERT_TRUE(wait_until(10s, [&] { return populated(*group) == 21; }));
    const auto frozen = group->freeze();
    ASSERT_TRUE(frozen) << frozen.error().line();
    EXPECT_TRUE(*group->frozen());
    const auto killed = group->kill_all();
    ASSERT_TRUE(killed) << killed.error().line();
    EXPECT_EQ(child.wait()->signal(), SIGKILL);
    EXPECT_EQ(populated(*group), 0u);
    EXPECT_TRUE(group->remove());
}

} // namespace
} // namespace berth::sys
