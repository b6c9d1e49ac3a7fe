// Sandboxes that are found again: create, start, stop, pause, resume, rm.

#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Create : public Kept {};
class States : public Kept {};
class Rm : public Kept {};

TEST_F(Create, PrintsTheIdAndSaysHowItWasComeBy)
{
    const auto ended = berth({"create"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    const auto id = trimmed(ended.out);
    EXPECT_TRUE(id.starts_with("sbx_") && id.size() == 30) << ended.out;
    EXPECT_EQ(ended.err, "berth: fresh " + id + "\n");
}

TEST_F(Create, QuietPrintsOnlyTheId)
{
    const auto ended = berth({"create", "--quiet"});
    EXPECT_EQ(ended.err, "");
    EXPECT_EQ(state(trimmed(ended.out)), "running");
}

TEST_F(Create, DocumentHasEveryFieldAlsoWhereThereIsNoValue)
{
    const auto told =
        document({"create", "--key", "demo", "--idle", "90s", "--on-idle", "destroy", "--label", "a=b"});
    EXPECT_EQ(told.at("key").as_string(), "demo");
    EXPECT_TRUE(told.at("name").is_null());
    EXPECT_EQ(told.at("backend").as_string(), "local");
    EXPECT_EQ(told.at("state").as_string(), "running");
    EXPECT_EQ(told.at("generation").as_int64(), 1);
    EXPECT_EQ(told.at("outcome").as_string(), "fresh");
    EXPECT_EQ(told.at("idle_seconds").as_int64(), 90);
    EXPECT_EQ(told.at("on_idle").as_string(), "destroy");
    EXPECT_EQ(told.at("labels").at("a").as_string(), "b");
    for (const char* name :
         {"snapshot", "lost_seconds", "unsynced_since", "lifetime_seconds", "superseded_by"})
        EXPECT_TRUE(told.at(name).is_null()) << name;
    EXPECT_THAT(std::string(told.at("created").as_string()),
                testing::MatchesRegex("20..-..-..T..:..:......Z"));
}

TEST_F(Create, TwiceWithOneKeyIsOneSandbox)
{
    const auto first = create({"--key", "demo"});
    const auto again = berth({"create", "--key", "demo"});
    EXPECT_EQ(trimmed(again.out), first);
    EXPECT_EQ(again.err, "berth: attached " + first + "\n");
    EXPECT_EQ(berth({"ls", "-q"}).out, first + "\n");
    EXPECT_EQ(events_of("sandbox_created"), 1u);
}

TEST_F(Create, TwiceWithOneNameIsOneSandbox)
{
    const auto first = create({"--name", "box"});
    EXPECT_EQ(create({"--name", "box"}), first);
    EXPECT_EQ(create({"--name", "other"}) == first, false);
}

TEST_F(Create, ByKeyDoesNotMindTheName)
{
    const auto first = create({"--key", "demo", "--name", "box"});
    EXPECT_EQ(create({"--key", "demo"}), first);
}

TEST_F(Create, NameWithAnotherConfigurationIsAConflict)
{
    const auto first = create({"--name", "box"});
    const auto other = berth({"create", "--name", "box", "--env", "A=1"});
    EXPECT_EQ(other.code, 4);
    EXPECT_THAT(other.err, AllOf(HasSubstr("'box' exists with another configuration"), HasSubstr(first)));
    EXPECT_EQ(error_code(berth({"create", "--json", "--name", "box", "--env", "A=1"})), "conflict");
}

TEST_F(Create, KeyWithAnotherConfigurationIsANewSandboxAndSaysSo)
{
    const auto first = create({"--key", "demo"});
    const auto ended = berth({"create", "--key", "demo", "--env", "A=1"});
    const auto second = trimmed(ended.out);
    EXPECT_NE(second, first);
    EXPECT_THAT(ended.err, AllOf(HasSubstr("fresh " + second), HasSubstr(first)));
    EXPECT_EQ(berth({"ls", "-q"}).out, second + "\n");
    EXPECT_THAT(berth({"ls", "--all"}).out, AllOf(HasSubstr(first), HasSubstr("running,superseded")));
}

TEST_F(Create, ARefusedPolicyLeavesNoTrace)
{
    const auto kept = create({"--key", "demo"});
    EXPECT_NE(berth({"create", "--key", "demo", "--net", "open"}).code, 0);
    EXPECT_NE(berth({"create", "--key", "demo", "--template", "dir:/nowhere"}).code, 0);
    EXPECT_EQ(berth({"ls", "--all", "-q"}).out, kept + "\n");
    EXPECT_EQ(create({"--key", "demo"}), kept);
}

TEST_F(Create, AKeyFindsItsSandboxWithAndWithoutItsName)
{
    const auto id = create({"--key", "demo", "--name", "box"});
    EXPECT_EQ(create({"--key", "demo"}), id);
    EXPECT_EQ(berth({"exec", "demo", "--", "cat", "/proc/sys/kernel/hostname"}).out, "box\n");
}

TEST_F(Create, AtOnceBySixtyFourProcessesIsOneSandbox)
{
    std::vector<std::unique_ptr<Started>> all;
    for (int i = 0; i < 64; ++i)
        all.push_back(std::make_unique<Started>(Start{.args = {"create", "--key", "same", "--json"}}));
    std::set<std::string> ids;
    std::size_t fresh = 0;
    for (auto& one : all) {
        const auto ended = one->finish();
        ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
        const auto told = parsed(trimmed(ended.out));
        ids.emplace(told.at("id").as_string());
        if (told.at("outcome").as_string() == "fresh") ++fresh;
    }
    EXPECT_EQ(ids.size(), 1u);
    EXPECT_EQ(fresh, 1u);
    EXPECT_EQ(events_of("sandbox_created"), 1u);
    EXPECT_EQ(berth({"ls", "--all", "-q"}).out, *ids.begin() + "\n");
}

TEST_F(Create, OfOneThatIsStoppedOrGoneBringsItBackOnceForEightProcessesAtOnce)
{
    const auto id = create({"--key", "same"});
    ASSERT_EQ(berth({"exec", "same", "--", "sh", "-c", "echo kept > ~/note"}).code, 0);
    ASSERT_EQ(berth({"snapshot", "same"}).code, 0);
    for (const std::string how : {"started", "restored"}) {
        if (how == "started") {
            ASSERT_EQ(berth({"stop", "same"}).code, 0);
        } else {
            // As if somebody had removed it: of no process of ours is it known that it did.
            const std::string native(document({"inspect", "same"}).at("native").as_string());
            std::filesystem::rename(Place::here().state() + "/sandbox/" + native,
                                    Place::here().dir("taken") + "/" + native);
        }
        std::vector<std::unique_ptr<Started>> all;
        for (int i = 0; i < 8; ++i)
            all.push_back(std::make_unique<Started>(Start{.args = {"create", "--key", "same", "--json"}}));
        std::map<std::string, int> outcomes;
        for (auto& one : all) {
            const auto ended = one->finish();
            ASSERT_EQ(ended.code, 0) << ended.out << ended.err;
            const auto told = parsed(trimmed(ended.out));
            EXPECT_EQ(told.at("id").as_string(), id);
            ++outcomes[std::string(told.at("outcome").as_string())];
        }
        EXPECT_EQ(outcomes, (std::map<std::string, int>{{how, 1}, {"attached", 7}}));
        EXPECT_EQ(berth({"exec", "same", "--", "sh", "-c", "cat ~/note"}).out, "kept\n");
    }
    EXPECT_EQ(berth({"gc"}).code, 0); // ends the keeper whose directory was taken
    EXPECT_EQ(berth({"ls", "--all", "-q"}).out, id + "\n");
    EXPECT_EQ(events_of("sandbox_created"), 1u);
}

TEST_F(Create, RefusesBeforeAnythingIsMade)
{
    const auto expect_refused = [](const Words& options, int code, const std::string& word) {
        Words args{"create"};
        args.insert(args.end(), options.begin(), options.end());
        const auto ended = berth(args);
        SCOPED_TRACE(testing::PrintToString(options));
        EXPECT_EQ(ended.code, code) << ended.err;
        EXPECT_EQ(ended.out, "");
        EXPECT_THAT(ended.err, HasSubstr(word));
        EXPECT_EQ(std::ranges::count(ended.err, '\n'), 1) << ended.err;
    };
    expect_refused({"--name", ""}, 2, "--name is empty");
    expect_refused({"--name", "no spaces please"}, 2, "bad name 'no spaces please'");
    expect_refused({"--key", "demo", "--name", "bell\x07"}, 2, "bad name");
    expect_refused({"--key", ""}, 2, "key");
    expect_refused({"--key", "bell\x07"}, 2, "key");
    expect_refused({"--key", "two\nlines"}, 2, "key");
    expect_refused({"--key", std::string(513, 'k')}, 2, "key");
    expect_refused({"--idle", "soon"}, 2, "bad duration 'soon'");
    expect_refused({"--idle", ""}, 2, "--idle is empty");
    expect_refused({"--idle", "0"}, 2, "--idle must be longer than zero: --idle never takes it back");
    expect_refused({"--lifetime", "0s"}, 2, "zero: --lifetime never takes it back");
    expect_refused({"--idle", "never", "--on-idle", "stop"}, 2, "--on-idle needs --idle");
    expect_refused({"--lifetime=-1s"}, 2, "bad duration '-1s'");
    expect_refused({"--on-idle", "stop"}, 2, "--on-idle needs --idle");
    expect_refused({"--idle", "1h", "--on-idle", "explode"}, 2, "none of stop, snapshot_then_stop, destroy");
    expect_refused({"--on-loss", "panic"}, 2, "none of restore, error, fresh");
    expect_refused({"--volume", "data"}, 2, "volume");
    expect_refused({"--volume", "data:relative"}, 2, "relative");
    expect_refused({"--volume", "data:/data:foo"}, 2, "'foo' is neither ro nor rw");
    expect_refused({"--backend", "moon"}, 6, "moon");
    expect_refused({"--kye", "x"}, 2, "did you mean --key?");
    expect_refused({"--net", "open"}, 6, "network open");
    EXPECT_EQ(berth({"ls", "-q"}).out, "");
}

TEST_F(Create, FindsItByPrefixNameAndKey)
{
    const auto id = create({"--name", "box", "--key", "agent/7 main"});
    for (const std::string& ref :
         {id, id.substr(0, 20), id.substr(4), std::string("box"), std::string("agent/7 main")})
        EXPECT_EQ(document({"inspect", ref}).at("id").as_string(), id) << ref;
}

TEST_F(Create, PrefixOfSeveralIsAConflictThatNamesThem)
{
    const auto first = create();
    const auto second = create();
    const auto ended = berth({"inspect", first.substr(0, 7)});
    EXPECT_EQ(ended.code, 4);
    EXPECT_THAT(ended.err, AllOf(HasSubstr(first), HasSubstr(second)));
}

TEST_F(States, UnknownIsNotFoundInEveryVerb)
{
    for (const Words& words :
         {Words{"start", "nope"}, Words{"stop", "nope"}, Words{"pause", "nope"}, Words{"resume", "nope"},
          Words{"rm", "nope"}, Words{"rm", "--dry-run", "nope"}, Words{"inspect", "nope"},
          Words{"events", "nope"}, Words{"snapshot", "nope"}, Words{"snapshots", "nope"},
          Words{"fork", "nope"}, Words{"detach", "nope"}, Words{"restore", "snap_nope"},
          Words{"snapshots", "rm", "snap_nope"}, Words{"volume", "rm", "nope"}}) {
        const auto ended = berth(words);
        EXPECT_EQ(ended.code, 3) << words[0] << ended.err;
        EXPECT_EQ(ended.out, "") << words[0];
        EXPECT_THAT(ended.err, HasSubstr("lists them")) << words[0];
        auto json = words;
        json.emplace_back("--json");
        EXPECT_EQ(error_code(berth(json)), "not_found") << words[0];
    }
}

TEST_F(States, EmptyNamesNothing)
{
    create();
    for (const char* verb : {"start", "stop", "pause", "resume", "rm", "inspect", "events", "snapshot",
                             "snapshots", "fork", "detach"})
        EXPECT_EQ(berth({verb, ""}).code, 3) << verb;
}

TEST_F(States, AStoppedOneStartsAgain)
{
    const auto id = create({"--name", "box"});
    const auto stopped = berth({"stop", "box"});
    EXPECT_EQ(stopped.code, 0) << stopped.err;
    EXPECT_EQ(stopped.out, id + "\n");
    EXPECT_EQ(state(id), "stopped");
    EXPECT_EQ(berth({"stop", "box"}).code, 0) << "stopped already is fine";
    const auto started = berth({"start", "box"});
    EXPECT_EQ(started.out, id + "\n");
    EXPECT_EQ(started.err, "berth: started " + id + "\n");
    EXPECT_EQ(state(id), "running");
    EXPECT_EQ(berth({"start", "box"}).err, "berth: attached " + id + "\n");
    EXPECT_EQ(events_of("sandbox_created"), 1u);
}

TEST_F(States, CreateByKeyStartsAStoppedOne)
{
    const auto id = create({"--key", "demo"});
    ASSERT_EQ(berth({"stop", "demo"}).code, 0);
    EXPECT_EQ(document({"create", "--key", "demo"}).at("outcome").as_string(), "started");
    EXPECT_EQ(state(id), "running");
}

TEST_F(States, PausedOnesGoOn)
{
    const auto id = create();
    const auto paused = berth({"pause", id});
    if (paused.code == 6) { // no freezer for this user: refused by name, and nothing happened
        EXPECT_THAT(paused.err, HasSubstr("cannot be paused"));
        EXPECT_EQ(state(id), "running");
        return;
    }
    EXPECT_EQ(paused.out, id + "\n") << paused.err;
    EXPECT_EQ(state(id), "paused");
    EXPECT_EQ(berth({"resume", id}).code, 0);
    EXPECT_EQ(state(id), "running");
    EXPECT_EQ(berth({"resume", id}).code, 0) << "running already is fine";
}

TEST_F(States, ResumeOfAStoppedOneSaysWhatWouldHelp)
{
    const auto id = create();
    ASSERT_EQ(berth({"stop", id}).code, 0);
    const auto ended = berth({"resume", id});
    EXPECT_EQ(ended.code, 4);
    EXPECT_THAT(ended.err, HasSubstr("berth start " + id));
}

TEST_F(States, GraceIsATime)
{
    const auto id = create();
    EXPECT_EQ(berth({"stop", "--grace", "long", id}).code, 2);
    EXPECT_EQ(state(id), "running");
    EXPECT_EQ(berth({"stop", "--grace", "0", id}).code, 0);
}

TEST_F(States, SeveralAreDoneAlsoAfterAFailure)
{
    const auto first = create();
    const auto second = create();
    const auto ended = berth({"stop", first, "nope", second});
    EXPECT_EQ(ended.code, 3);
    EXPECT_EQ(ended.out, first + "\n" + second + "\n");
    EXPECT_THAT(ended.err, HasSubstr("no sandbox 'nope'"));
    const auto told = document({"start", first, "nope", second}, 3);
    EXPECT_EQ(told.at("sandboxes").as_array().size(), 2u);
    EXPECT_EQ(told.at("error").at("code").as_string(), "not_found");
    EXPECT_EQ(told.at("errors").at(0).at("ref").as_string(), "nope");
}

TEST_F(Rm, DestroysAndIsContentWithWhatIsDestroyed)
{
    const auto id = create({"--name", "box"});
    EXPECT_EQ(berth({"rm", "box"}).out, id + "\n");
    EXPECT_EQ(berth({"ls", "-q"}).out, "");
    EXPECT_EQ(state(id), "destroyed");
    EXPECT_EQ(berth({"rm", id}).code, 0);
    EXPECT_EQ(berth({"rm", "box"}).code, 3) << "a name of nothing that lives";
    EXPECT_EQ(berth({"start", id}).code, 3);
}

TEST_F(Rm, DryRunChangesNothing)
{
    const auto id = create({"--name", "box"});
    const auto before = berth({"inspect", id, "--json"}).out;
    const auto ended = berth({"rm", "--dry-run", "box"});
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.out, id + "\n");
    EXPECT_EQ(ended.err, "berth: would remove " + id + " (box, running)\n");
    EXPECT_EQ(berth({"rm", "--all", "--dry-run"}).out, id + "\n");
    EXPECT_EQ(berth({"inspect", id, "--json"}).out, before);
    EXPECT_EQ(document({"rm", "--dry-run", "box"}).at("sandboxes").at(0).at("running_execs").as_int64(), 0);
    ASSERT_EQ(berth({"exec", "-d", id, "--", "sleep", "300"}).code, 0);
    EXPECT_EQ(document({"rm", "--dry-run", "box"}).at("sandboxes").at(0).at("running_execs").as_int64(), 1);
}

TEST_F(Rm, NeedsToBeToldWhich)
{
    EXPECT_EQ(berth({"rm"}).code, 2);
    EXPECT_THAT(berth({"rm"}).err, HasSubstr("--all"));
    EXPECT_EQ(berth({"rm", "--all", "box"}).code, 2);
    EXPECT_EQ(berth({"rm", "--all"}).code, 0) << "nothing is all there is";
}

TEST_F(Rm, AllTakesStoppedAndSupersededOnes)
{
    const auto first = create({"--key", "demo"});
    const auto second = create({"--key", "demo", "--env", "A=1"});
    const auto third = create();
    ASSERT_EQ(berth({"stop", third}).code, 0);
    EXPECT_EQ(berth({"rm", "--all"}).out, first + "\n" + second + "\n" + third + "\n");
    EXPECT_EQ(state(first), "destroyed");
}

TEST_F(Rm, LeavesNothing)
{
    create({"--key", "first"}); // makes the store, the lock file and the like
    ASSERT_EQ(berth({"rm", "--all"}).code, 0);
    const Traces before = traces();
    create(marked({"--key", "second"}));
    ASSERT_EQ(berth({"rm", "second"}).code, 0);
    expect_same(before);
}

} // namespace
} // namespace berth::test
