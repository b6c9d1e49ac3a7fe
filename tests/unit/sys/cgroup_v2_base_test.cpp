#include "sys/cgroup_v2_base.hpp"

#include <gtest/gtest.h>

#include "base/io.hpp"
#include "sys/cgroup.hpp"
#include "temp_dir.hpp"

namespace berth::sys {
namespace {

/// Plain files in the shape of a v2 hierarchy: what is decided depends on their content only.
struct FakeTree {
    TempDir dir;
    void group(const std::string& path, const std::string& controllers, const std::string& handed_down,
               const std::string& procs = "") const
    {
        const std::string at = path.empty() ? "" : path + "/";
        if (!path.empty()) {
            dir.make_dir(path);
            dir.write(at + "cgroup.type", "domain\n");
        }
        dir.write(at + "cgroup.controllers", controllers + "\n");
        dir.write(at + "cgroup.subtree_control", handed_down + "\n");
        dir.write(at + "cgroup.procs", procs);
    }
    [[nodiscard]] OwnGroup own(const std::string& path) const
    {
        return {.mount = dir.path(), .path = path.empty() ? dir.path() : dir / path};
    }
    [[nodiscard]] std::string wrote(const std::string& file) const { return *read_file(dir / file); }
};

TEST(CgroupBase, TheRootMayHandDownAlthoughItHoldsProcesses)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "memory pids", "1\n2\n");
    const auto base = choose_v2_base(tree.own(""), MoveSelf::Never);
    EXPECT_EQ(base.path, tree.dir.path());
    EXPECT_EQ(base.enabled.count(), 3u);
    EXPECT_TRUE(tree.wrote("cgroup.subtree_control").starts_with("+cpu"));
}

TEST(CgroupBase, StaysInItsOwnGroupWhenThatIsEnough)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("service", "cpu memory pids", "cpu memory pids", "");
    EXPECT_EQ(choose_v2_base(tree.own("service"), MoveSelf::Never).path, tree.dir / "service");
}

TEST(CgroupBase, ClimbsOverAGroupThatOthersLiveIn)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("user.slice", "cpu memory pids", "memory pids", "");
    tree.group("user.slice/session.scope", "memory pids", "", "11\n12\n");
    const auto base = choose_v2_base(tree.own("user.slice/session.scope"), MoveSelf::IfNeeded);
    EXPECT_EQ(base.path, tree.dir / "user.slice");
    EXPECT_EQ(base.enabled.count(), 3u);
}

TEST(CgroupBase, MovesItselfOnlyWhenAloneAndAllowed)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("scope", "cpu memory pids", "", fmt::format("{}\n", ::getpid()));
    tree.group("scope/berth-self", "", "", "");
    // Only this scope can be written: as in a delegated one of an ordinary user.
    const OwnGroup own{.mount = tree.dir / "scope", .path = tree.dir / "scope"};
    const auto never = choose_v2_base(own, MoveSelf::Never);
    EXPECT_TRUE(never.enabled.none());
    EXPECT_NE(never.lack.reason.find("other processes live in group"), std::string::npos)
        << never.lack.reason;
    EXPECT_NE(never.lack.remedy.find("Delegate=yes"), std::string::npos);
    EXPECT_EQ(tree.wrote("scope/berth-self/cgroup.procs"), "");

    const auto moved = choose_v2_base(own, MoveSelf::IfNeeded);
    EXPECT_EQ(moved.path, tree.dir / "scope");
    EXPECT_EQ(moved.enabled.count(), 3u);
    EXPECT_EQ(tree.wrote("scope/berth-self/cgroup.procs"), "0") << "itself, and nobody else";
}

TEST(CgroupBase, OneThatStartsInItsLeafStaysThere)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("scope", "cpu memory pids", "", "");
    tree.group("scope/berth-self", "cpu memory pids", "", fmt::format("{}\n", ::getpid()));
    const auto base = choose_v2_base(tree.own("scope/berth-self"), MoveSelf::IfNeeded);
    EXPECT_EQ(base.path, tree.dir / "scope");
    EXPECT_EQ(base.enabled.count(), 3u);
    EXPECT_FALSE(tree.dir.has("scope/berth-self/berth-self"));
}

TEST(CgroupBase, AUnitInOurSliceHasSandboxesBesideIt)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("berth.slice", "cpu memory pids", "memory pids", "");
    tree.group("berth.slice/berth.service", "cpu memory pids", "", fmt::format("{}\n", ::getpid()));
    const auto base = choose_v2_base(tree.own("berth.slice/berth.service"), MoveSelf::IfNeeded);
    EXPECT_EQ(base.path, tree.dir / "berth.slice");
    EXPECT_EQ(base.enabled.count(), 3u);
    EXPECT_FALSE(tree.dir.has("berth.slice/berth.service/berth-self")) << "it is in a leaf already";
}

TEST(CgroupBase, AUnitInASliceOfOthersStaysInItsOwn)
{
    const FakeTree tree;
    tree.group("", "cpu memory pids", "cpu memory pids", "1\n");
    tree.group("system.slice", "cpu memory pids", "cpu memory pids", "");
    tree.group("system.slice/berth.service", "cpu memory pids", "", fmt::format("{}\n", ::getpid()));
    tree.group("system.slice/berth.service/berth-self", "", "", "");
    const auto base = choose_v2_base(tree.own("system.slice/berth.service"), MoveSelf::IfNeeded);
    EXPECT_EQ(base.path, tree.dir / "system.slice/berth.service");
}

TEST(CgroupBase, NeverMovesOthers)
{
    const FakeTree tree;
    tree.group("", "memory", "memory", "1\n");
    tree.group("scope", "memory", "", fmt::format("{}\n77\n", ::getpid()));
    const OwnGroup own{.mount = tree.dir / "scope", .path = tree.dir / "scope"};
    const auto base = choose_v2_base(own, MoveSelf::IfNeeded);
    EXPECT_TRUE(base.enabled.none());
    EXPECT_FALSE(tree.dir.has("scope/berth-self"));
    EXPECT_EQ(base.path, tree.dir / "scope") << "birth, kill and freeze work all the same";
}

TEST(CgroupBase, AThreadedGroupIsNoBase)
{
    const FakeTree tree;
    tree.group("", "memory", "memory", "1\n");
    tree.group("t", "memory", "memory", "");
    tree.dir.write("t/cgroup.type", "threaded\n");
    EXPECT_EQ(choose_v2_base({.mount = tree.dir / "t", .path = tree.dir / "t"}, MoveSelf::Never).path, "");
}

TEST(CgroupBase, SaysWhenAControllerIsNotGiven)
{
    const FakeTree tree;
    tree.group("", "memory pids", "memory pids", "");
    CgroupLayout layout;
    layout.v2 = tree.own("");
    const auto groups = CgroupTree::open(layout, {});
    EXPECT_EQ(groups.of(Controller::Memory).version, Facility::Version::V2);
    EXPECT_EQ(groups.of(Controller::Freezer).version, Facility::Version::V2);
    const auto& cpu = groups.of(Controller::Cpu);
    EXPECT_FALSE(cpu.available());
    EXPECT_NE(cpu.lack.reason.find("is not given it from above"), std::string::npos);
    EXPECT_FALSE(cpu.lack.remedy.empty());
}

TEST(CgroupBase, AnotherUsersGroupIsRefusedWithTheRemedy)
{
    if (::geteuid() == 0)
        GTEST_SKIP() << "root may write everywhere; enable with: setpriv --reuid=1000 --regid=1000 "
                        "--clear-groups unit_sys";
    const FakeTree tree;
    tree.group("", "memory", "memory", "1\n");
    ASSERT_EQ(::chmod((tree.dir / "cgroup.procs").c_str(), 0444), 0); // the common ancestor's is root's
    CgroupLayout layout;
    layout.v2 = tree.own("");
    const auto groups = CgroupTree::open(layout, {});
    EXPECT_FALSE(groups.usable());
    const auto refused = groups.admit(GroupLimits{.memory = 64_MiB}.controllers());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_NE(refused.error().message.find("belongs to somebody else"), std::string::npos)
        << refused.error().message;
    EXPECT_NE(refused.error().message.find("systemd-run --user --scope -p Delegate=yes"), std::string::npos);
}

} // namespace
} // namespace berth::sys
