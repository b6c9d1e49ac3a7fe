// Looking at sandboxes: ls, inspect, events; and what is done to those nobody uses: gc, volumes.

#include <gmock/gmock.h>

#include <csignal>
#include <sstream>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Ls : public Kept {};
class Inspect : public Kept {};
class Events : public Kept {};
class Gc : public Kept {};
class Borrow : public Kept {};
class VolumeVerb : public Kept {};

TEST_F(Ls, IsATableInAPipeToo)
{
    EXPECT_EQ(berth({"ls"}).out, "ID  NAME  KEY  STATE  BACKEND  AGE  LAST-USED\n");
    const auto id = create({"--name", "box", "--key", "agent one"});
    std::istringstream lines(berth({"ls"}).out);
    std::string head, row;
    std::getline(lines, head);
    std::getline(lines, row);
    EXPECT_THAT(row,
                AllOf(HasSubstr(id), HasSubstr("box"), HasSubstr("agent one"), HasSubstr("running  local")));
    EXPECT_EQ(row.find("running"), head.find("STATE"));
    EXPECT_EQ(row.find("local"), head.find("BACKEND"));
}

TEST_F(Ls, ShowsTheDeadOnlyWhenAsked)
{
    const auto id = create();
    ASSERT_EQ(berth({"rm", id}).code, 0);
    EXPECT_EQ(berth({"ls", "-q"}).out, "");
    EXPECT_EQ(berth({"ls", "-q", "--all"}).out, id + "\n");
}

TEST_F(Ls, ChoosesByNameAndBackend)
{
    const auto box = create({"--name", "box"});
    create({"--name", "other"});
    EXPECT_EQ(berth({"ls", "-q", "--name", "box"}).out, box + "\n");
    EXPECT_EQ(berth({"ls", "-q", "--backend", "moon"}).out, "");
    EXPECT_EQ(document({"ls", "--backend", "local"}).at("sandboxes").as_array().size(), 2u);
}

TEST_F(Ls, RefreshAsksTheBackend)
{
    const auto id = create();
    const auto instance = parsed(contents(Place::here().state() + "/sandbox/" + id + "/instance"));
    ASSERT_EQ(::kill(static_cast<pid_t>(instance.at("pid").as_int64()), SIGKILL), 0) << "its keeper";
    EXPECT_THAT(berth({"ls"}).out, HasSubstr("running"));
    EXPECT_TRUE(
        eventually([] { return berth({"ls", "--refresh"}).out.find("running") == std::string::npos; }));
    EXPECT_THAT(berth({"ls"}).out, Not(HasSubstr("running"))) << "what was seen is remembered";
}

TEST_F(Inspect, ShowsWhatWasAskedForButNoValuesOfTheEnvironment)
{
    const auto dir = Place::here().dir("work");
    const auto id = create({"--env", "TOKEN=hidden-value", "--workspace", dir, "--label", "team=blue"});
    const auto text = berth({"inspect", id});
    EXPECT_THAT(text.out, AllOf(HasSubstr("TOKEN"), HasSubstr("--show-env"), HasSubstr(dir),
                                HasSubstr("team=blue"), HasSubstr("healthy"), HasSubstr("network off")));
    EXPECT_THAT(text.out, Not(HasSubstr("hidden-value")));
    const auto told = document({"inspect", id});
    EXPECT_TRUE(told.at("spec").at("env").at("TOKEN").is_null());
    EXPECT_EQ(told.at("instance").at("health").as_string(), "healthy");
    EXPECT_GT(told.at("rules").as_array().size(), 2u);
    EXPECT_EQ(told.at("execs").as_array().size(), 0u);
    EXPECT_EQ(told.at("snapshots").as_array().size(), 0u);
    EXPECT_THAT(berth({"inspect", "--show-env", id}).out, HasSubstr("TOKEN=hidden-value"));
    EXPECT_EQ(document({"inspect", "--show-env", id}).at("spec").at("env").at("TOKEN").as_string(),
              "hidden-value");
}

TEST_F(Inspect, DoesNotTellWhereTheHostKeepsThings)
{
    const auto id = create({"--volume", "data:/data"});
    EXPECT_THAT(berth({"inspect", id}).out, HasSubstr("data:/data:rw"));
    EXPECT_THAT(berth({"inspect", id, "--json"}).out, Not(HasSubstr(Place::here().state())));
}

TEST_F(Events, TellTheLifeOfASandboxInOrder)
{
    const auto id = create({"--key", "demo"});
    const auto other = create();
    ASSERT_EQ(berth({"rm", id}).code, 0);
    std::vector<std::string> types;
    std::int64_t last = 0;
    for (const auto& event : json_lines(berth({"events", id, "--json"}).out)) {
        EXPECT_EQ(event.at("sandbox").as_string(), id);
        EXPECT_GT(event.at("sequence").as_int64(), last);
        last = event.at("sequence").as_int64();
        types.emplace_back(event.at("type").as_string());
    }
    EXPECT_EQ(types,
              (std::vector<std::string>{"sandbox_created", "sandbox_started", "berth.sandbox_destroyed"}));
    EXPECT_THAT(berth({"events"}).out,
                AllOf(HasSubstr(id), HasSubstr(other), HasSubstr("sandbox_created"), HasSubstr("key=demo")));
}

TEST_F(Events, ArePagedByTheirSequence)
{
    create();
    create();
    const auto all = json_lines(berth({"events", "--json"}).out);
    ASSERT_GE(all.size(), 4u);
    std::string after = "0";
    for (const auto& event : all) {
        const auto page = json_lines(berth({"events", "--json", "--after", after, "--limit", "1"}).out);
        ASSERT_EQ(page.size(), 1u);
        EXPECT_EQ(page[0], event);
        after = std::to_string(event.at("sequence").as_int64());
    }
    EXPECT_EQ(berth({"events", "--after", after}).out, "");
    EXPECT_EQ(berth({"events", "--after", "x"}).code, 2);
    EXPECT_EQ(berth({"events", "--limit", "0"}).code, 2);
}

TEST_F(Events, FollowMissesAndRepeatsNone)
{
    Started follower({.args = {"events", "--follow", "--json"}});
    std::vector<std::string> ids;
    for (int i = 0; i < 4; ++i) {
        ids.push_back(create());
        ASSERT_EQ(berth({"rm", ids.back()}).code, 0);
        ASSERT_TRUE(follower.wait_for("berth.sandbox_destroyed\",\"data\":{\"sandbox_id\":\"" + ids.back()));
    }
    follower.signal(SIGINT);
    const auto ended = follower.finish();
    EXPECT_EQ(ended.signal, SIGINT);
    EXPECT_EQ(ended.out, berth({"events", "--json"}).out);
}

TEST_F(Events, FollowOfATypePassesOverTheOthers)
{
    const auto id = create();
    Started follower(
        {.args = {"events", "--follow", "--json", "--type", "berth.sandbox_destroyed", "--limit", "1"}});
    create();
    ASSERT_EQ(berth({"rm", id}).code, 0);
    const auto ended = follower.finish();
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, berth({"events", "--json", "--type", "berth.sandbox_destroyed"}).out);
}

TEST_F(Events, FollowEndsWithItsReader)
{
    create();
    Started follower({.args = {"events", "--follow"}});
    ASSERT_TRUE(follower.wait_for("sandbox_started"));
    follower.close_output();
    const auto ended = follower.finish();
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.err, "");
}

TEST_F(Events, FollowEndsAtItsLimit)
{
    create();
    EXPECT_EQ(json_lines(berth({"events", "--follow", "--json", "--limit", "2"}).out).size(), 2u);
}

TEST_F(Events, TailIsTheLastOfThemInOrder)
{
    const auto id = create();
    create();
    const auto all = json_lines(berth({"events", "--json"}).out);
    ASSERT_GE(all.size(), 4u);
    EXPECT_EQ(json_lines(berth({"events", "--json", "--tail", "3"}).out),
              std::vector<json::Value>(all.end() - 3, all.end()));
    EXPECT_EQ(json_lines(berth({"events", "--json", "--tail", "10000"}).out), all);
    EXPECT_EQ(berth({"events", "--tail", "0"}).out, "");
    const auto of_one = json_lines(berth({"events", id, "--json"}).out);
    EXPECT_EQ(json_lines(berth({"events", id, "--json", "--tail", "1"}).out),
              std::vector<json::Value>{of_one.back()});
    EXPECT_EQ(
        json_lines(berth({"events", id, "--json", "--tail", "5", "--type", "sandbox_created"}).out).size(),
        1u);
    EXPECT_EQ(berth({"events", "--tail", "10001"}).code, 2);
    EXPECT_THAT(berth({"events", "--tail", "2", "--limit", "1"}).err, HasSubstr("leave --limit out"));
    EXPECT_THAT(berth({"events", "--tail", "2", "--after", "0"}).err, HasSubstr("leave --after out"));
}

TEST_F(Events, TailIsWhereFollowingBegins)
{
    create();
    const auto id = create();
    Started follower({.args = {"events", "--follow", "--json", "--tail", "1"}});
    ASSERT_TRUE(follower.wait_for("sandbox_started"));
    ASSERT_EQ(berth({"rm", id}).code, 0);
    ASSERT_TRUE(follower.wait_for("berth.sandbox_destroyed"));
    follower.signal(SIGINT);
    EXPECT_EQ(follower.finish().out, berth({"events", "--json", "--tail", "2"}).out);
}

TEST_F(Gc, FindsNothingWhereNothingIs)
{
    create();
    EXPECT_EQ(berth({"gc"}).out, "nothing to collect\n");
    const auto told = document({"gc", "--dry-run"});
    EXPECT_TRUE(told.at("dry_run").as_bool());
    EXPECT_EQ(told.at("actions").as_array().size(), 0u);
}

TEST_F(Gc, StopsTheIdleAndOnlySaysSoWhenDry)
{
    const auto id = create({"--idle", "1s"});
    ASSERT_TRUE(
        eventually([&] { return berth({"gc", "--dry-run"}).out.find("would") != std::string::npos; }));
    EXPECT_EQ(state(id), "running");
    const auto ended = berth({"gc"});
    EXPECT_EQ(ended.code, 0) << ended.out;
    EXPECT_THAT(ended.out,
                AllOf(HasSubstr("stop"), HasSubstr(id), HasSubstr("done"), HasSubstr("idle for more")));
    EXPECT_EQ(state(id), "stopped");
}

TEST_F(Gc, DestroysWhatHasLivedItsTime)
{
    const auto id = create({"--lifetime", "1s"});
    ASSERT_TRUE(eventually([&] { return berth({"gc"}).out.find(id) != std::string::npos; }));
    EXPECT_EQ(state(id), "destroyed");
}

TEST_F(Gc, DestroysSupersededOnesAfterTheirGrace)
{
    const auto first = create({"--key", "demo"});
    const auto second = create({"--key", "demo", "--env", "A=1"});
    EXPECT_EQ(berth({"gc"}).out, "nothing to collect\n");
    EXPECT_THAT(berth({"gc", "--grace", "0"}).out, HasSubstr(first));
    EXPECT_EQ(state(first), "destroyed");
    EXPECT_EQ(state(second), "running");
}

TEST_F(Gc, RefusesWhatItCannotRead)
{
    EXPECT_EQ(berth({"gc", "--grace", "soon"}).code, 2);
    EXPECT_EQ(berth({"gc", "--grace", ""}).code, 2);
    EXPECT_EQ(berth({"gc", "--keep-last", "few"}).code, 2);
    EXPECT_EQ(berth({"gc", "--keep-within", "0"}).code, 2);
    EXPECT_EQ(berth({"gc", "--keep-bytes", "lots"}).code, 2);
}

TEST_F(Borrow, IsNothingTheLocalBackendDoes)
{
    const auto ended = berth({"attach", "local", "anything"});
    EXPECT_EQ(ended.code, 6);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("local"), HasSubstr("attach")));
    EXPECT_EQ(error_code(berth({"attach", "moon", "anything", "--json"})), "unsupported");
}

TEST_F(Borrow, OurOwnIsNotDetached)
{
    const auto id = create();
    const auto ended = berth({"detach", id});
    EXPECT_EQ(ended.code, 4);
    EXPECT_THAT(ended.err, HasSubstr("berth rm"));
    EXPECT_EQ(state(id), "running");
}

TEST_F(VolumeVerb, OutlivesItsSandboxAndIsRemovedByName)
{
    const auto id = create({"--key", "demo", "--volume", "cache:/cache"});
    EXPECT_THAT(berth({"volume", "ls"}).out, AllOf(HasSubstr("cache"), HasSubstr("demo"), HasSubstr(id)));
    const auto refused = berth({"volume", "rm", "cache"});
    EXPECT_EQ(refused.code, 4);
    EXPECT_THAT(refused.err, HasSubstr("berth rm " + id));
    ASSERT_EQ(berth({"stop", id}).code, 0);
    EXPECT_EQ(berth({"volume", "rm", "cache"}).code, 4) << "a stopped one may start again";
    ASSERT_EQ(berth({"rm", id}).code, 0);
    EXPECT_EQ(document({"volume", "ls"}).at("volumes").at(0).at("used_by").as_array().size(), 0u);
    EXPECT_EQ(berth({"volume", "rm", "cache", "--dry-run"}).code, 0);
    EXPECT_EQ(document({"volume", "ls"}).at("volumes").as_array().size(), 1u);
    EXPECT_EQ(berth({"volume", "rm", "cache", "--key", "other"}).code, 3);
    EXPECT_EQ(berth({"volume", "rm", "cache", "--key", "demo"}).code, 0);
    EXPECT_EQ(berth({"volume", "ls"}).out, "NAME  KEY  USED-BY\n");
}

TEST_F(VolumeVerb, OfSeveralKeysNeedsTheKey)
{
    create({"--key", "one", "--volume", "cache:/cache"});
    create({"--key", "two", "--volume", "cache:/cache"});
    ASSERT_EQ(berth({"rm", "--all"}).code, 0);
    const auto ended = berth({"volume", "rm", "cache"});
    EXPECT_EQ(ended.code, 4);
    EXPECT_THAT(ended.err, HasSubstr("--key"));
    EXPECT_EQ(berth({"volume", "rm", "cache", "--key", "two"}).code, 0);
    EXPECT_EQ(berth({"volume", "rm", "cache"}).code, 0) << "one is left";
}

} // namespace
} // namespace berth::test
