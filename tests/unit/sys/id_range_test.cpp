#include "sys/id_range.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <vector>

#include "temp_dir.hpp"

namespace berth::sys {
namespace {

TEST(IdRange, BelongsToOneHolder)
{
    const TempDir dir;
    const auto first = IdRange::lease_slot(dir.fd(), 17);
    ASSERT_TRUE(first) << first.error().line();
    EXPECT_EQ(first->base(), 1'879'048'192u + 17 * 65'536u);
    const auto second = IdRange::lease_slot(dir.fd(), 17);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::Conflict);
    EXPECT_NE(second.error().message.find("slot-17"), std::string::npos);
}

TEST(IdRange, IsFreeWhenTheLastDescriptorCloses)
{
    const TempDir dir;
    auto first = std::optional(*IdRange::lease_slot(dir.fd(), 3));
    UniqueFd passed_on(::fcntl(first->fd(), F_DUPFD_CLOEXEC, 0));
    first.reset();
    EXPECT_FALSE(IdRange::lease_slot(dir.fd(), 3));
    passed_on.reset();
    EXPECT_TRUE(IdRange::lease_slot(dir.fd(), 3));
}

TEST(IdRange, GivesDifferentRangesUntilNoneIsLeft)
{
    const TempDir dir;
    std::vector<IdRange> leases;
    std::set<std::uint32_t> bases;
    for (int i = 0; i < 50; ++i) {
        auto lease = IdRange::lease(dir.fd());
        ASSERT_TRUE(lease);
        bases.insert(lease->base());
        leases.push_back(std::move(*lease));
    }
    EXPECT_EQ(bases.size(), 50u);
}

TEST(IdRange, PlacesTheLastRangeBelowTwoToTheThirtyOne)
{
    const TempDir dir;
    const auto last = IdRange::lease_slot(dir.fd(), IdRange::kSlots - 1);
    ASSERT_TRUE(last);
    EXPECT_EQ(last->base() + (IdRange::kSize - 1), 0x7fffffffu);
    EXPECT_EQ(IdRange::lease_slot(dir.fd(), IdRange::kSlots).error().code, Code::Invalid);
}

TEST(IdRange, DoesNotFollowALinkPlantedAsALock)
{
    const TempDir dir;
    dir.write("target", "");
    dir.link("target", "slot-5");
    EXPECT_FALSE(IdRange::lease_slot(dir.fd(), 5));
}

TEST(IdRange, NamesWhatItCouldNotOpen)
{
    const auto lease = IdRange::lease(-1);
    ASSERT_FALSE(lease);
    EXPECT_NE(lease.error().message.find("slot-"), std::string::npos);
}

} // namespace
} // namespace berth::sys
