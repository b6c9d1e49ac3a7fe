// What a sandbox is told when it is asked for again, and what is told when it cannot be had.

#include <gmock/gmock.h>

#include <filesystem>

#include <fmt/format.h>

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

TEST_F(Again, TheNewestNameOfAKeyCounts)
{
    const auto id = create({"--key", "demo"});
    EXPECT_EQ(create({"--key", "demo", "--name", "first"}), id);
    EXPECT_EQ(create({"--key", "demo", "--name", "second"}), id);
    EXPECT_EQ(create({"--key", "demo"}), id);
    EXPECT_EQ(document({"inspect", "second"}).at("id").as_string(), id);
    EXPECT_EQ(berth({"inspect", "first"}).code, 3);
    EXPECT_EQ(events_of("berth.sandbox_renamed"), 2u);
}

TEST_F(Again, TheNameOfAnotherIsNotTaken)
{
    const auto other = create({"--name", "bar"}), id = create({"--key", "demo"});
    for (const Words& more : {Words{}, Words{"--env", "A=1"}}) {
        Words words{"create", "--key", "demo", "--name", "bar"};
        words.insert(words.end(), more.begin(), more.end());
        const auto refused = berth(words);
        EXPECT_EQ(refused.code, 4);
        EXPECT_EQ(refused.err,
                  "berth: the name 'bar' is that of " + other + ", and the key 'demo' that of " + id + "\n");
    }
    EXPECT_EQ(document({"inspect", "demo"}).at("id").as_string(), id);
    EXPECT_EQ(document({"inspect", "bar"}).at("id").as_string(), other);
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

TEST_F(Again, EveryDocumentTellsWhatWasLost)
{
    const auto id = create();
    const auto snapshot = trimmed(berth({"snapshot", id, "--quiet"}).out);
    const auto lose = [&] {
        ASSERT_EQ(berth({"stop", id}).code, 0);
        static int count = 0;
        for (const auto& one : std::filesystem::directory_iterator(Place::here().state() + "/sandbox"))
            if (one.path().filename().string().starts_with(id))
                std::filesystem::rename(one.path(),
                                        Place::here().dir(fmt::format("taken{}", ++count)) + "/it");
    };
    const auto expect_told = [&](const json::Value& told) {
        EXPECT_EQ(told.at("outcome").as_string(), "restored");
        EXPECT_EQ(told.at("snapshot").as_string(), snapshot);
        EXPECT_TRUE(told.at("lost_seconds").is_number());
        EXPECT_TRUE(told.at("unsynced_since").is_null());
        EXPECT_EQ(told.at("notes").as_array().size(), 1u);
    };
    for (const Words& words :
         {Words{"exec", "--json", id, "--", "true"}, Words{"exec", "--detach", "--json", id, "--", "true"},
          Words{"exec", "--yield", "20s", "--json", id, "--", "true"}}) {
        lose();
        const auto ended = berth(words);
        ASSERT_EQ(ended.code, 0) << ended.err;
        expect_told(json_lines(ended.out).at(0));
    }
    lose();
    const auto copied = document({"cp", id + ":/etc/hostname", Place::here().dir("copied")});
    expect_told(copied.at("source"));
    EXPECT_EQ(copied.at("source").at("sandbox").as_string(), id);
    EXPECT_TRUE(copied.at("target").is_null());
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
