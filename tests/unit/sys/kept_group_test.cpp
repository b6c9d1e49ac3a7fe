#include "sys/cgroup.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/io.hpp"
#include "base/scope_exit.hpp"

namespace berth::sys {
namespace {

std::size_t descriptors()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

class KeptGroups : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (!tree.usable())
            GTEST_SKIP() << "no groups: " << tree.leaf().lack.reason << "; enable with: sudo unit_sys";
    }
    void TearDown() override { tree.remove_parents(); }
    /// Below a parent of this test's own, so that nothing else that runs meanwhile is touched.
    CgroupTree tree = CgroupTree::open(
        CgroupOptions{.parent = fmt::format("berth-test-{}", ::getpid()), .move_self = MoveSelf::Never});
};

TEST_F(KeptGroups, RestWithoutDescriptorsAndComeBack)
{
    GroupLimits limits;
    if (tree.of(Controller::Pids).available()) limits.pids = 50;
    const auto before = descriptors();
    auto kept = tree.make_kept("sbx_resting", limits);
    ASSERT_TRUE(kept) << kept.error().line();
    const ScopeExit gone([&] { static_cast<void>(KeptGroup::remove(kept->places())); });
    kept->rest();
    EXPECT_EQ(descriptors(), before);
    EXPECT_TRUE(kept->execs().frozen());
    EXPECT_EQ(kept->execs().birth_tasks().size(), kept->places().distinct_v1().size());
    for (const int fd : kept->execs().birth_tasks()) EXPECT_GE(fd, 0);
    auto exec = kept->make_exec("exec_1");
    ASSERT_TRUE(exec) << exec.error().line();
    for (const int fd : kept->birth_tasks(*exec)) EXPECT_GE(fd, 0);
    EXPECT_TRUE(exec->remove());
}

TEST_F(KeptGroups, LetNothingBeBornOutsideOfThemWhenTheyAreGone)
{
    if (!tree.of(Controller::Pids).available() || tree.of(Controller::Pids).version != Facility::Version::V1)
        GTEST_SKIP() << "no v1 hierarchy counts processes here";
    auto kept = tree.make_kept("sbx_vanished", {.pids = 50});
    ASSERT_TRUE(kept) << kept.error().line();
    kept->rest();
    ASSERT_TRUE(KeptGroup::remove(kept->places()));
    const auto tasks = kept->execs().birth_tasks();
    ASSERT_EQ(tasks.size(), kept->places().distinct_v1().size());
    for (const int fd : tasks) EXPECT_EQ(fd, -1);
}

TEST_F(KeptGroups, GetTheLimitsOfWhoeverUsesThem)
{
    for (const auto c : {Controller::Pids, Controller::Memory})
        if (!tree.of(c).available())
            GTEST_SKIP() << to_string(c) << ": " << tree.of(c).lack.reason << "; " << tree.of(c).lack.remedy;
    const std::string name = "sbx_widened";
    auto kept = tree.make_kept(name, {.pids = 50});
    ASSERT_TRUE(kept) << kept.error().line();
    const GroupLimits wider{.memory = 64_MiB, .pids = 50};
    const ScopeExit gone([&] { static_cast<void>(KeptGroup::remove(tree.kept_places(name, wider))); });
    auto wide = tree.widen_kept(name, kept->places(), wider);
    ASSERT_TRUE(wide) << wide.error().line();
    EXPECT_EQ(wide->places().v1, tree.kept_places(name, wider).v1);
    const auto& v1 = wide->places().v1[index(Controller::Memory)];
    const auto told = v1.empty() ? read_file(wide->places().v2 + "/x/memory.max")
                                 : read_file(v1 + "/memory.limit_in_bytes");
    ASSERT_TRUE(told) << told.error().line();
    EXPECT_EQ(*told, "67108864\n");
}

} // namespace
} // namespace berth::sys
