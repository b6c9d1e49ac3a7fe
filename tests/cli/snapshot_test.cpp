// What is kept of a sandbox and made from it again: snapshot, snapshots, restore, fork.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Snapshot : public Kept {
protected:
    static std::string take(const std::string& ref)
    {
        const auto ended = berth({"snapshot", ref, "--quiet"});
        EXPECT_EQ(ended.code, 0) << ended.err;
        EXPECT_EQ(ended.err, "");
        return trimmed(ended.out);
    }
};
class Restore : public Snapshot {};
class Fork : public Snapshot {};

TEST_F(Snapshot, PrintsItsIdAndSaysWhatItHolds)
{
    const auto id = create();
    const auto ended = berth({"snapshot", id, "--note", "first"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    const auto snapshot = trimmed(ended.out);
    EXPECT_TRUE(snapshot.starts_with("snap_") && snapshot.size() == 31) << ended.out;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("snapshot of " + id), HasSubstr("memory")));
    EXPECT_THAT(berth({"snapshots"}).out, AllOf(HasSubstr(snapshot), HasSubstr(id), HasSubstr("first")));
    const auto told = document({"snapshots", id}).at("snapshots").at(0);
    EXPECT_EQ(told.at("id").as_string(), snapshot);
    EXPECT_EQ(told.at("note").as_string(), "first");
    EXPECT_EQ(document({"inspect", id}).at("latest_snapshot").as_string(), snapshot);
}

/// Templates are found by their notes, and never collected.
TEST_F(Snapshot, HasNoNoteOfATemplatesOrOfAStepOfABuild)
{
    const auto id = create();
    for (const std::string note : {"template here mine", "template ", "build step 0123"}) {
        const auto ended = berth({"snapshot", id, "--note", note});
        EXPECT_EQ(ended.code, 2) << ended.out;
        EXPECT_THAT(ended.err, HasSubstr("berth's own"));
    }
    EXPECT_EQ(berth({"snapshot", id, "--note", std::string(5000, 'x')}).code, 2);
    EXPECT_EQ(berth({"snapshots", "--quiet"}).out, "");
    EXPECT_EQ(berth({"snapshot", id, "--note", "templates of mine"}).code, 0);
}

TEST_F(Snapshot, DocumentTellsCopyBytesAndTime)
{
    const auto told = document({"snapshot", create()});
    EXPECT_TRUE(told.at("live_copy").is_bool());
    EXPECT_TRUE(told.at("bytes").is_null()) << "nothing was copied, and nobody has counted";
    EXPECT_GT(told.at("elapsed_seconds").as_double(), 0);
    EXPECT_GE(told.at("notes").as_array().size(), 1u);
}

TEST_F(Fork, IsCalledByItsOwnNameInItsFiles)
{
    const auto id = create({"--name", "first"});
    const auto told = [](const std::string& ref) {
        return berth({"exec", ref, "--", "sh", "-c", "cat /etc/hostname; head -1 /etc/hosts"}).out;
    };
    EXPECT_EQ(told(id), "first\n127.0.0.1\tlocalhost first\n");
    ASSERT_EQ(berth({"fork", id, "--name", "second"}).code, 0);
    EXPECT_EQ(told("second"), "second\n127.0.0.1\tlocalhost second\n");
    ASSERT_EQ(berth({"restore", take(id), "--new", "--key", "third"}).code, 0);
    EXPECT_EQ(told("third"), "sandbox\n127.0.0.1\tlocalhost sandbox\n");
}

TEST_F(Fork, LeavesLinesOfHostsThatSomebodyAdded)
{
    if (!is_root()) GTEST_SKIP() << "an ordinary user's sandboxes have one account: sudo ./dev test -R cli";
    const auto id = create({"--name", "first"});
    const auto added =
        berth({"exec", id, "--user", "root", "--", "sh", "-c", "echo 127.0.0.1 mine >> /etc/hosts"});
    ASSERT_EQ(added.code, 0) << added.err;
    ASSERT_EQ(berth({"fork", id, "--name", "second"}).code, 0);
    EXPECT_THAT(berth({"exec", "second", "--", "cat", "/etc/hosts"}).out, HasSubstr("127.0.0.1 mine\n"));
}

TEST_F(Snapshot, OfAKindNobodyMakesNamesThoseThatAreMade)
{
    const auto id = create();
    const auto ended = berth({"snapshot", id, "--kind", "polaroid"});
    EXPECT_EQ(ended.code, 6);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("polaroid"), HasSubstr("berth_layer")));
    EXPECT_EQ(berth({"snapshots", "-q"}).out, "");
}

TEST_F(Snapshot, IsRemovedByIdOrPrefix)
{
    const auto id = create();
    const auto first = take(id);
    const auto second = take(id);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, second + "\n" + first + "\n") << "the newest first";
    EXPECT_EQ(berth({"snapshots", "rm", "--dry-run", first}).out, first + "\n");
    EXPECT_EQ(berth({"snapshots", "rm", first.substr(0, 8)}).code, 4) << "stands for both";
    EXPECT_EQ(berth({"snapshots", "rm", first}).out, first + "\n");
    EXPECT_EQ(berth({"snapshots", "-q", id}).out, second + "\n");
    EXPECT_EQ(berth({"snapshots", "rm", first}).code, 3);
}

TEST_F(Snapshot, CollectedByHowManyAreKept)
{
    const auto id = create();
    const auto first = take(id);
    const auto second = take(id);
    EXPECT_THAT(berth({"gc", "--keep-last", "1", "--dry-run"}).out,
                AllOf(HasSubstr("would"), HasSubstr(first)));
    EXPECT_EQ(berth({"gc", "--keep-last", "1"}).code, 0);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, second + "\n");
}

TEST_F(Snapshot, CollectedByWhatTheyTake)
{
    const auto id = create();
    const auto small = take(id);
    ASSERT_EQ(
        berth({"exec", id, "--", "dd", "if=/dev/urandom", "of=/home/user/big", "bs=1M", "count=3"}).code, 0);
    const auto big = take(id);
    const auto newest = take(id);
    EXPECT_THAT(berth({"gc", "--keep-bytes", "2MiB", "--dry-run"}).out,
                AllOf(HasSubstr(big), HasSubstr(small), Not(HasSubstr(newest)), HasSubstr("would be freed")));
    const auto listed = document({"snapshots"}).at("snapshots").as_array();
    ASSERT_EQ(listed.size(), 3u);
    EXPECT_EQ(listed[1].at("id").as_string(), big);
    EXPECT_GE(listed[1].at("bytes").as_int64(), 3 << 20);
    EXPECT_LT(listed[0].at("bytes").as_int64(), 1 << 20) << "what is new in it, not all that it shows";
    EXPECT_THAT(berth({"snapshots"}).out, Not(HasSubstr(" 0 B")));
    EXPECT_EQ(berth({"gc", "--keep-bytes", "2MiB"}).code, 0);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, newest + "\n") << "the older one goes, however small";
}

TEST_F(Snapshot, IsKeptByEachOptionThatSaysSo)
{
    const auto id = create();
    const auto older = take(id);
    const auto newest = take(id);
    EXPECT_EQ(berth({"gc", "--keep-last", "1", "--keep-within", "1h"}).code, 0);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, newest + "\n" + older + "\n");
    EXPECT_EQ(berth({"gc", "--keep-bytes", "1"}).code, 0);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, newest + "\n") << "its sandbox may have to come from it";
    EXPECT_EQ(berth({"gc", "--keep-last", "0"}).code, 0);
    EXPECT_EQ(berth({"snapshots", "-q"}).out, "");
}

TEST_F(Restore, OnABackendThatDoesNotKnowTheKindNamesThoseThatDo)
{
    const auto snapshot = take(create());
    const auto ended = berth({"restore", snapshot, "--backend", "e2b"});
    EXPECT_NE(ended.code, 0);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("is a berth_layer"), HasSubstr("it can be restored on local")));
    const auto planned = berth({"restore", "--dry-run", snapshot, "--backend", "e2b"});
    EXPECT_EQ(planned.code, ended.code) << "what would be refused is not said to be done";
    EXPECT_THAT(planned.err, HasSubstr("is a berth_layer"));
    EXPECT_NE(berth({"restore", "--dry-run", snapshot, "--backend", "lokal"}).code, 0);
    EXPECT_EQ(document({"restore", "--dry-run", snapshot, "--backend", "local"}).at("backend").as_string(),
              "local");
    EXPECT_EQ(document({"ls", "--all"}).at("sandboxes").as_array().size(), 1u);
    EXPECT_EQ(berth({"restore", snapshot, "--backend", ""}).code, 2);
    EXPECT_NE(berth({"restore", snapshot, "--backend", "lokal"}).code, 0);
    const auto made = document({"restore", snapshot, "--backend", "local"});
    EXPECT_EQ(made.at("outcome").as_string(), "restored");
    EXPECT_EQ(document({"ls"}).at("sandboxes").as_array().size(), 2u) << "a new one";
}

TEST_F(Restore, RefusesBadNamesFirst)
{
    const auto snapshot = take(create());
    EXPECT_EQ(berth({"restore", snapshot, "--key", ""}).code, 2);
    EXPECT_EQ(berth({"restore", snapshot, "--name", ""}).code, 2);
    EXPECT_EQ(berth({"restore", snapshot, "--key", "bell\x07"}).code, 2);
}

TEST_F(Restore, PromisesNothingThatItWouldRefuse)
{
    const auto id = create({"--key", "k1", "--name", "box"});
    const auto snapshot = take(id);
    const auto both_refuse = [&](const Words& more, int code, const std::string& why) {
        for (const bool dry : {true, false}) {
            Words words{"restore", snapshot};
            if (dry) words.emplace_back("--dry-run");
            words.insert(words.end(), more.begin(), more.end());
            const auto ended = berth(words);
            EXPECT_EQ(ended.code, code) << (dry ? "dry run" : "restore");
            EXPECT_THAT(ended.err, HasSubstr(why)) << (dry ? "dry run" : "restore");
        }
    };
    both_refuse({"--name", "box"}, 4, "a sandbox named 'box' exists: " + id);
    both_refuse({"--key", "k1"}, 4, "a sandbox with the key 'k1' exists: " + id);
    for (const auto& file : fs::directory_iterator(Place::here().state() + "/snapshot/" + snapshot))
        std::ofstream(file.path(), std::ios::app) << "damage";
    both_refuse({"--new"}, 2, "is damaged");
    both_refuse({}, 2, "is damaged");
    EXPECT_EQ(document({"ls", "--all"}).at("sandboxes").as_array().size(), 1u);
}

TEST_F(Restore, ALayerThatIsMissingIsNamedWhereASandboxStarts)
{
    const auto id = create();
    ASSERT_FALSE(take(id).empty());
    ASSERT_EQ(berth({"stop", id}).code, 0);
    const fs::path layers = Place::here().state() + "/layer";
    const fs::path away = Place::here().dir("away");
    std::string layer;
    for (const auto& one : fs::directory_iterator(layers))
        if (fs::exists(one.path() / "u1")) layer = one.path().filename();
    ASSERT_FALSE(layer.empty());
    fs::rename(layers / layer, away / layer);
    const auto ended = berth({"start", id});
    EXPECT_EQ(ended.code, 3);
    EXPECT_THAT(ended.err, HasSubstr("layer " + layer + " is not here"));
    fs::rename(away / layer, layers / layer);
    EXPECT_EQ(berth({"start", id}).code, 0);
}

TEST_F(Fork, DocumentTellsWhatItCost)
{
    const auto told = document({"fork", create()});
    EXPECT_EQ(told.at("sandboxes").as_array().size(), 1u);
    EXPECT_TRUE(told.at("live_copy").is_bool());
    EXPECT_GE(told.at("bytes").as_int64(), 0);
    EXPECT_GT(told.at("elapsed_seconds").as_double(), 0);
}

TEST_F(Fork, TakesNoNameThatSomebodyHas)
{
    const auto id = create({"--name", "box"});
    create({"--name", "try-2"});
    for (const Words& words :
         {Words{"fork", id, "--name", "box"}, Words{"fork", id, "-n", "3", "--name", "try"},
          Words{"restore", take(id), "--name", "box"}}) {
        const auto ended = berth(words);
        EXPECT_EQ(ended.code, 4) << words[0];
        EXPECT_THAT(ended.err, HasSubstr("exists")) << words[0];
    }
    EXPECT_EQ(document({"ls"}).at("sandboxes").as_array().size(), 2u);
}

TEST_F(Fork, CountsFromOneToAThousand)
{
    const auto id = create();
    for (const char* bad : {"0", "-1", "1001", "many"})
        EXPECT_EQ(berth({"fork", id, std::string("--count=") + bad}).code, 2) << bad;
    EXPECT_EQ(berth({"ls", "-q"}).out, id + "\n");
}

} // namespace
} // namespace berth::test
