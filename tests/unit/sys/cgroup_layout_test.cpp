#include "sys/cgroup_layout.hpp"

#include <gtest/gtest.h>

namespace berth::sys {
namespace {

std::string v1_path(const CgroupLayout& layout, Controller c)
{
    return layout.v1[index(c)] ? layout.v1[index(c)]->path : "none";
}

TEST(CgroupLayout, PureV1)
{
    const auto layout =
        parse_layout("11:memory:/user.slice/s-1.scope\n"
                     "10:freezer:/\n"
                     "4:cpu,cpuacct:/user.slice\n"
                     "3:pids:/user.slice/s-1.scope\n"
                     "1:name=systemd:/user.slice/s-1.scope\n",
                     "30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n"
                     "31 30 0:27 / /sys/fs/cgroup/systemd rw shared:9 - cgroup cgroup rw,xattr,name=systemd\n"
                     "35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:15 - cgroup cgroup rw,cpu,cpuacct\n"
                     "36 30 0:32 / /sys/fs/cgroup/memory rw shared:16 - cgroup cgroup rw,memory\n"
                     "37 30 0:33 / /sys/fs/cgroup/pids rw shared:17 - cgroup cgroup rw,pids\n"
                     "38 30 0:34 / /sys/fs/cgroup/freezer rw shared:18 - cgroup cgroup rw,freezer\n");
    EXPECT_FALSE(layout.v2);
    EXPECT_EQ(v1_path(layout, Controller::Memory), "/sys/fs/cgroup/memory/user.slice/s-1.scope");
    EXPECT_EQ(v1_path(layout, Controller::Cpu), "/sys/fs/cgroup/cpu,cpuacct/user.slice");
    EXPECT_EQ(v1_path(layout, Controller::Pids), "/sys/fs/cgroup/pids/user.slice/s-1.scope");
    EXPECT_EQ(v1_path(layout, Controller::Freezer), "/sys/fs/cgroup/freezer");
}

TEST(CgroupLayout, HybridHasBoth)
{
    const auto layout =
        parse_layout("8:pids:/\n6:freezer:/\n4:memory:/api/5f31\n1:cpu:/\n0::/\n",
                     "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
                     "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
                     "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
                     "39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids\n"
                     "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
    ASSERT_TRUE(layout.v2);
    EXPECT_EQ(layout.v2->path, "/sys/fs/cgroup/unified");
    EXPECT_EQ(v1_path(layout, Controller::Memory), "/sys/fs/cgroup/memory/api/5f31");
    EXPECT_EQ(v1_path(layout, Controller::Cpu), "/sys/fs/cgroup/cpu");
}

TEST(CgroupLayout, PureV2AtTheRoot)
{
    const auto layout = parse_layout(
        "0::/\n", "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
    ASSERT_TRUE(layout.v2);
    EXPECT_EQ(*layout.v2, (OwnGroup{.mount = "/sys/fs/cgroup", .path = "/sys/fs/cgroup"}));
    EXPECT_EQ(v1_path(layout, Controller::Memory), "none");
}

TEST(CgroupLayout, PureV2InAUsersDelegatedScope)
{
    const auto layout =
        parse_layout("0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n",
                     "29 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 "
                     "rw,nsdelegate\n");
    ASSERT_TRUE(layout.v2);
    const auto groups = ancestry(*layout.v2);
    ASSERT_EQ(groups.size(), 6u);
    EXPECT_EQ(groups.front(),
              "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope");
    EXPECT_EQ(groups.back(), "/sys/fs/cgroup");
}

TEST(CgroupLayout, AContainerThatSeesItsSubtreeOnly)
{
    const auto layout =
        parse_layout("0::/docker/abc/init\n4:memory:/docker/abc\n",
                     "900 899 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
                     "901 899 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    ASSERT_TRUE(layout.v2);
    EXPECT_EQ(layout.v2->path, "/sys/fs/cgroup/init");
    EXPECT_EQ(layout.v2->mount, "/sys/fs/cgroup");
    EXPECT_EQ(v1_path(layout, Controller::Memory), "/sys/fs/cgroup/memory");
}

TEST(CgroupLayout, ANamespacedRootIsARoot)
{
    const auto layout =
        parse_layout("0::/\n", "900 899 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
    ASSERT_TRUE(layout.v2);
    EXPECT_EQ(layout.v2->path, "/sys/fs/cgroup");
}

TEST(CgroupLayout, AMountFromOutsideOurNamespaceDoesNotShowOurGroup)
{
    const auto layout = parse_layout("0::/\n", "900 899 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    EXPECT_FALSE(layout.v2);
    EXPECT_EQ(layout.why_no_v2, "/sys/fs/cgroup does not show our group /");
    const auto above =
        parse_layout("0::/../sibling\n", "900 899 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
    EXPECT_FALSE(above.v2);
}

TEST(CgroupLayout, PicksTheMountThatShowsOurGroup)
{
    const auto layout = parse_layout("0::/a/b\n", "1 0 0:26 /other /mnt/x rw - cgroup2 none rw\n"
                                                  "2 0 0:26 /a /mnt/with\\040space rw - cgroup2 none rw\n"
                                                  "3 0 0:26 /a/bc /mnt/y rw - cgroup2 none rw\n");
    ASSERT_TRUE(layout.v2);
    EXPECT_EQ(layout.v2->path, "/mnt/with space/b");
}

TEST(CgroupLayout, NoMountMeansNothing)
{
    for (const auto* own : {"0::/\n4:memory:/\n", "", "garbage\n::\n:\n0\n"}) {
        const auto layout =
            parse_layout(own, "23 1 0:21 / /proc rw - proc proc rw\nbroken - cgroup2\n - - -\n");
        EXPECT_FALSE(layout.v2) << own;
        for (const auto c : kControllers) EXPECT_EQ(v1_path(layout, c), "none");
    }
}

TEST(CgroupLayout, ReadsControllerLists)
{
    EXPECT_EQ(parse_controllers("cpuset cpu io memory hugetlb pids rdma misc\n").count(), 3u);
    EXPECT_TRUE(parse_controllers("hugetlb\n").none());
    EXPECT_TRUE(parse_controllers("").none());
}

} // namespace
} // namespace berth::sys
