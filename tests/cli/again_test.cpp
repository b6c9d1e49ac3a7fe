// What a sandbox is told when it is asked for again, and what is told when it cannot be had.

#include <gmock/gmock.h>

#include <filesystem>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

class Again : public Kept {};

TEST_F(Again, LabelsOfTheNewestWordCount)
{
    const auto id = create({"--key", "demo", "--label", "a=1", "--label", "b=1"});
    EXPECT_EQ(create({"--key", "demo", "--label", "b=2", "--label", "c=2"}), id);
    EXPECT_EQ(create({"--key", "demo"}), id);
    const auto labels = document({"inspect", id}).at("labels").as_object();
    EXPECT_EQ(labels.size(), 3u);
    EXPECT_EQ(labels.at("a").as_string(), "1");
    EXPECT_EQ(labels.at("b").as_string(), "2");
    EXPECT_EQ(labels.at("c").as_string(), "2");
    EXPECT_EQ(events_of("berth.sandbox_labels_changed"), 1u);
}

TEST_F(Again, TheNewestWordOnItsIdleTimeCountsAndSilenceIsNone)
{
    const auto id = create({"--key", "demo", "--idle", "1h", "--on-idle", "destroy"});
    EXPECT_EQ(create({"--key", "demo", "--idle", "2h"}), id);
    EXPECT_EQ(create({"--key", "demo", "--lifetime", "8h"}), id);
    EXPECT_EQ(create({"--key", "demo"}), id);
    const auto seen = document({"inspect", "demo"});
    EXPECT_EQ(seen.at("idle_seconds").as_int64(), 7200);
    EXPECT_EQ(seen.at("on_idle").as_string(), "destroy") << "what is not said stays";
    EXPECT_EQ(seen.at("lifetime_seconds").as_int64(), 28'800);
    EXPECT_EQ(create({"--key", "demo", "--idle", "2h", "--on-idle", "snapshot_then_stop"}), id);
    EXPECT_EQ(document({"inspect", "demo"}).at("on_idle").as_string(), "snapshot_then_stop");
}

TEST_F(Again, NeverTakesItsIdleTimeAndItsLifetimeBack)
{
    const auto id = create({"--key", "demo", "--idle", "1h", "--on-idle", "destroy", "--lifetime", "8h"});
    EXPECT_EQ(create({"--key", "demo", "--idle", "never"}), id);
    EXPECT_TRUE(document({"inspect", "demo"}).at("idle_seconds").is_null());
    EXPECT_EQ(document({"inspect", "demo"}).at("on_idle").as_string(), "stop");
    EXPECT_EQ(document({"inspect", "demo"}).at("lifetime_seconds").as_int64(), 28'800);
    EXPECT_EQ(create({"--key", "demo", "--lifetime", "never"}), id);
    EXPECT_TRUE(document({"inspect", "demo"}).at("lifetime_seconds").is_null());
    EXPECT_EQ(events_of("berth.sandbox_retention_changed"), 2u);
}

TEST_F(Again, OfOneThatIsLostWithoutASnapshotSaysWhatHelps)
{
    const auto id = create({"--key", "my demo"}), other = create();
    for (const auto& one : {id, other})
        std::filesystem::rename(Place::here().state() + "/sandbox/" + one,
                                Place::here().dir("taken") + "/" + one);
    const auto told = "berth: sandbox " + id +
                      " is lost and has no snapshot: its work cannot be had back; berth create --key 'my "
                      "demo' makes a new one, berth rm " +
                      id + " removes it\n";
    const auto exec = berth({"exec", id, "--", "true"});
    EXPECT_EQ(exec.code, 125);
    EXPECT_EQ(exec.err, told);
    EXPECT_EQ(berth({"start", id}).err, told);
    EXPECT_THAT(berth({"start", other}).err,
                testing::EndsWith("had back; berth rm " + other + " removes it\n"));
    EXPECT_NE(create({"--key", "my demo"}), id);
    EXPECT_EQ(berth({"rm", other}).code, 0);
    EXPECT_EQ(berth({"gc"}).code, 0); // ends the keepers whose directories were taken
}

} // namespace
} // namespace berth::test
