#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "store/sqlite/sqlite_store.hpp"

namespace berth::store {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class StoreRows : public ::testing::Test {
protected:
    StoreRows()
    {
        char path[] = "/tmp/berth-store-XXXXXX";
        dir_ = ::mkdtemp(&path[0]);
        store_ = *SqliteStore::open(dir_ + "/store.db");
    }
    ~StoreRows() override
    {
        store_.reset();
        std::filesystem::remove_all(dir_);
    }
    static SandboxRecord record(const std::string& key = {})
    {
        SandboxRecord out;
        out.spec.id = make_sandbox_id(system_clock());
        out.spec.policy = *policy::preset("sandbox");
        out.key = key;
        out.backend = "local";
        out.created = out.last_used = at(100);
        out.state = State::Running;
        return out;
    }
    static WallTime at(int seconds) { return WallTime(std::chrono::seconds(seconds)); }

    std::string dir_;
    std::unique_ptr<SqliteStore> store_;
};

TEST_F(StoreRows, AnExecIsAddedWithTheUseOfItsSandboxAndEndsOnce)
{
    auto wanted = record();
    wanted.retention.idle = 300s;
    const auto box = *store_->insert(wanted, {});
    ExecRecord exec{
        .id = "exec_1", .sandbox = box.id(), .argv = {"sh", "-c", "echo 'a b'\n"}, .started = at(200)};
    ASSERT_TRUE(store_->add_exec(exec, {{.sandbox = box.id(), .type = "sandbox_process_started"}}));
    EXPECT_EQ(store_->add_exec(exec, {}).error().code, Code::Conflict);
    EXPECT_EQ((*store_->find(box.id()))->last_used, at(200));
    EXPECT_EQ((*store_->find(box.id()))->due, at(500));
    EXPECT_EQ((*store_->find(box.id()))->version, box.version) << "using it disturbs nobody";
    EXPECT_THAT(*store_->execs(box.id(), true), ElementsAre(exec));
    exec.ended = at(300);
    exec.outcome = "exit 7";
    const std::vector<LedgerEvent> told{{.sandbox = box.id(), .type = "sandbox_process_state_updated"}};
    ASSERT_TRUE(store_->end_exec(exec, told));
    exec.outcome = "unknown";
    ASSERT_TRUE(store_->end_exec(exec, told)) << "told again by somebody who came later";
    EXPECT_THAT(*store_->execs(box.id(), true), IsEmpty());
    EXPECT_EQ(store_->execs(box.id(), false)->front().outcome, "exit 7");
    EXPECT_EQ(store_->ledger({.type = "sandbox_process_state_updated"})->size(), 1u);
}

TEST_F(StoreRows, AnExecKeepsItsDeadlineUntilItEnds)
{
    const auto box = *store_->insert(record(), {});
    ExecRecord exec{.id = "exec_1", .sandbox = box.id(), .argv = {"true"}, .started = at(200)};
    exec.timeout = 1500ms;
    exec.paused_before = 70ms;
    exec.due = at(300);
    ExecRecord other{.id = "exec_2", .sandbox = box.id(), .argv = {"true"}, .started = at(200)};
    ASSERT_TRUE(store_->add_exec(exec, {}));
    ASSERT_TRUE(store_->add_exec(other, {}));
    EXPECT_THAT(*store_->execs_due(at(299), 10), IsEmpty());
    EXPECT_THAT(*store_->execs_due(at(300), 10), ElementsAre(exec));
    exec.due = at(400);
    exec.overdue = true;
    ASSERT_TRUE(store_->note_exec(exec));
    EXPECT_THAT(*store_->execs_due(at(300), 10), IsEmpty());
    EXPECT_THAT(*store_->execs(box.id(), true), ElementsAre(exec, other));
    exec.ended = at(350);
    exec.outcome = "signal 9";
    ASSERT_TRUE(store_->end_exec(exec, {}));
    EXPECT_THAT(*store_->execs_due(at(1000), 10), IsEmpty());
    auto late = exec;
    late.overdue = false;
    ASSERT_TRUE(store_->note_exec(late)) << "too late, and no error";
    EXPECT_TRUE(store_->execs(box.id(), false)->front().overdue);
}

TEST_F(StoreRows, ForgetsWhatIsOverAndNothingElse)
{
    const auto over = [&](State state, int changed) {
        auto one = record();
        one.state = state;
        one.changed = at(changed);
        const auto id = store_->insert(one, {{.sandbox = one.id(), .type = "sandbox_created"}})->id();
        EXPECT_TRUE(store_->add_exec({.id = "exec_of_" + id, .sandbox = id, .argv = {"true"}}, {}));
        return id;
    };
    const auto first = over(State::Destroyed, 10), failed = over(State::Failed, 20),
               detached = over(State::Detached, 30), young = over(State::Destroyed, 100),
               living = over(State::Stopped, 5), kept = over(State::Destroyed, 15);
    ASSERT_TRUE(
        store_->add_snapshot({.id = "snap_1", .sandbox = kept, .kind = "x", .spec = record().spec}, {}));
    ASSERT_TRUE(store_->append({{.sandbox = failed, .type = "berth.policy_proved"}}));
    EXPECT_EQ(*store_->count_ended(at(100), 10), 3u);
    EXPECT_EQ(*store_->forget_ended(at(100), 2), 2u) << "the oldest";
    EXPECT_TRUE(*store_->find(detached));
    EXPECT_EQ(*store_->forget_ended(at(100), 2), 1u);
    EXPECT_EQ(*store_->forget_ended(at(100), 2), 0u);
    for (const auto& id : {first, failed, detached}) {
        EXPECT_FALSE(*store_->find(id));
        EXPECT_THAT(*store_->execs(id, false), IsEmpty());
    }
    EXPECT_EQ(store_->ledger({.sandbox = first})->size(), 1u) << "the event with which everything began";
    EXPECT_EQ(store_->ledger({.sandbox = failed})->front().type, "berth.policy_proved");
    EXPECT_THAT(*store_->ledger({.sandbox = detached}), IsEmpty());
    for (const auto& id : {young, living, kept}) {
        EXPECT_TRUE(*store_->find(id)) << id;
        EXPECT_EQ(store_->ledger({.sandbox = id})->size(), 1u);
        EXPECT_EQ(store_->execs(id, false)->size(), 1u);
    }
}

TEST_F(StoreRows, ListsWhatGaveItsKeyUpAndIsNotOver)
{
    auto old = record();
    old.superseded_by = "sbx_other";
    auto gone = old;
    gone.spec.id = make_sandbox_id(system_clock());
    gone.state = State::Destroyed;
    old = *store_->insert(old, {});
    ASSERT_TRUE(store_->insert(gone, {}));
    ASSERT_TRUE(store_->insert(record(), {}));
    EXPECT_THAT(*store_->list({.superseded = true}), ElementsAre(old));
    EXPECT_THAT(*store_->list({.superseded = true, .after = old.id()}), IsEmpty());
}

TEST_F(StoreRows, AnExecOutlivesWhoeverAddedItAtOnce)
{
    const auto box = *store_->insert(record(), {});
    store_.reset(); // locks of SQLite are the process's
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto own = SqliteStore::open(dir_ + "/store.db");
        const ExecRecord exec{.id = "exec_1", .sandbox = box.id(), .argv = {"true"}, .started = at(200)};
        const bool added = own && (*own)->add_exec(exec, {{.sandbox = box.id(), .type = "started"}});
        ::kill(::getpid(), added ? SIGKILL : SIGABRT);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(WTERMSIG(status), SIGKILL) << "it was not added";
    store_ = *SqliteStore::open(dir_ + "/store.db");
    ASSERT_EQ(store_->execs(box.id(), true)->size(), 1u);
    EXPECT_EQ(store_->ledger({.type = "started"})->size(), 1u);
    EXPECT_EQ((*store_->find(box.id()))->last_used, at(200));
}

TEST_F(StoreRows, ThoseWhoNeedNotWaitForTheDiskAndThoseWhoMustDoNotLoseEachOther)
{
    const auto box = *store_->insert(record(), {});
    constexpr int each = 50;
    std::vector<std::thread> writers;
    for (int t = 0; t < 4; ++t)
        writers.emplace_back([&, t] {
            for (int i = 0; i < each; ++i) {
                ExecRecord exec{
                    .id = fmt::format("exec_{}_{}", t, i), .sandbox = box.id(), .started = at(200)};
                EXPECT_TRUE(store_->add_exec(exec, {{.sandbox = box.id(), .type = "begun"}}));
                exec.ended = at(300);
                exec.outcome = "exit 0";
                if (i % 2 == 0) EXPECT_TRUE(store_->end_exec(exec, {}));
                if (i % 10 == 0) EXPECT_TRUE(store_->append({{.sandbox = box.id(), .type = "synced"}}));
            }
        });
    for (auto& one : writers) one.join();
    EXPECT_EQ(store_->execs(box.id(), false)->size(), 4u * each);
    EXPECT_EQ(store_->execs(box.id(), true)->size(), 2u * each);
    EXPECT_EQ(store_->ledger({.type = "begun"})->size(), 4u * each);
    EXPECT_EQ(store_->ledger({.type = "synced"})->size(), 4u * each / 10);
}

TEST_F(StoreRows, ListsWhatIsDue)
{
    auto late = record(), soon = record(), never = record();
    soon.due = at(150);
    late.due = at(1000);
    for (auto* one : {&late, &soon, &never}) *one = *store_->insert(*one, {});
    EXPECT_THAT(*store_->list({.due_by = at(149)}), IsEmpty());
    EXPECT_THAT(*store_->list({.due_by = at(150)}), ElementsAre(soon));
    soon.retention.idle = 2000s;
    soon = *store_->update(soon, {});
    ASSERT_TRUE(store_->touch(soon.id(), at(120)));
    EXPECT_THAT(*store_->list({.due_by = at(1000)}), ElementsAre(late));
}

TEST_F(StoreRows, ListsWhatIsDueAndSupersededUntilItIsOver)
{
    auto old = record(), gone = record(), next = record();
    if (next.id() < old.id()) std::swap(old.spec.id, next.spec.id); // made in one moment they have no order
    for (auto* one : {&old, &gone, &next}) one->due = at(150);
    old.superseded_by = gone.superseded_by = next.id();
    gone.state = State::Destroyed;
    for (auto* one : {&old, &gone, &next}) *one = *store_->insert(*one, {});
    EXPECT_THAT(*store_->list({.due_by = at(149)}), IsEmpty());
    EXPECT_THAT(*store_->list({.due_by = at(150)}), ElementsAre(old, next));
    EXPECT_THAT(*store_->list({.due_by = at(150), .after = old.id()}), ElementsAre(next));
    EXPECT_THAT(*store_->list({.due_by = at(150), .limit = 1}), ElementsAre(old));
}

TEST_F(StoreRows, AUseKeepsTheDeadlineThatWasSetMeanwhile)
{
    auto box = *store_->insert(record(), {});
    ExecRecord exec{.id = "exec_1", .sandbox = box.id(), .started = at(200)};
    ASSERT_TRUE(store_->add_exec(exec, {}));
    EXPECT_EQ((*store_->find(box.id()))->due, WallTime{});
    box.retention = {.idle = 60s, .on_idle = OnIdle::Stop, .lifetime = 1h};
    ASSERT_TRUE(store_->update(box, {}));
    exec.ended = at(300);
    exec.outcome = "exit 0";
    ASSERT_TRUE(store_->end_exec(exec, {}));
    EXPECT_EQ((*store_->find(box.id()))->due, at(360));
    ASSERT_TRUE(store_->touch(box.id(), at(90'000)));
    EXPECT_EQ((*store_->find(box.id()))->due, at(3700)) << "its lifetime";
}

TEST_F(StoreRows, ATouchNeverMovesTheLastUseBack)
{
    const auto box = *store_->insert(record(), {});
    ASSERT_TRUE(store_->touch(box.id(), at(50)));
    EXPECT_EQ((*store_->find(box.id()))->last_used, at(100));
}

TEST_F(StoreRows, AKeyChangesHandsWhollyOrNotAtAll)
{
    auto old = *store_->insert(record("demo"), {});
    EXPECT_EQ(store_->insert(record("demo"), {}).error().code, Code::Conflict);
    auto next = *store_->insert(record(), {});
    next.key = "demo";
    auto stale = old;
    stale.version += 5;
    stale.superseded_by = next.id();
    EXPECT_EQ(store_->replace(stale, next, {}).error().code, Code::Conflict);
    EXPECT_EQ((*store_->find(next.id()))->key, "") << "the second half was undone with the first";
    auto late = next;
    late.version += 5;
    old.superseded_by = next.id();
    EXPECT_EQ(store_->replace(old, late, {}).error().code, Code::Conflict);
    EXPECT_EQ((*store_->find_key("demo"))->id(), old.id()) << "the first half was undone with the second";
    old.superseded_by = next.id();
    ASSERT_TRUE(store_->replace(old, next, {}));
    EXPECT_EQ((*store_->find_key("demo"))->id(), next.id());
}

TEST_F(StoreRows, RetentionAndFailureAreKept)
{
    auto wanted = record();
    wanted.retention = {.idle = 90s, .on_idle = OnIdle::SnapshotThenStop, .lifetime = 24h};
    wanted.failure = "no space left";
    wanted.changed = at(7);
    wanted = *store_->insert(wanted, {});
    EXPECT_EQ(**store_->find(wanted.id()), wanted);
}

TEST_F(StoreRows, AStoreOfTheFirstSchemaIsBroughtUpToDate)
{
    const auto box = *store_->insert(record("demo"), {});
    store_.reset();
    const std::string file = dir_ + "/store.db";
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(file.c_str(), &raw), SQLITE_OK);
    const char* back =
        "DROP INDEX sandbox_due; DROP INDEX sandbox_superseded; DROP INDEX sandbox_ended;"
        "DROP TABLE exec; DROP TABLE setting;"
        "ALTER TABLE sandbox DROP COLUMN idle; ALTER TABLE sandbox DROP COLUMN on_idle;"
        "ALTER TABLE sandbox DROP COLUMN lifetime; ALTER TABLE sandbox DROP COLUMN failure;"
        "ALTER TABLE sandbox DROP COLUMN changed; ALTER TABLE sandbox DROP COLUMN due;"
        "ALTER TABLE snapshot DROP COLUMN backend; ALTER TABLE snapshot DROP COLUMN file;"
        "ALTER TABLE snapshot DROP COLUMN live_copy; ALTER TABLE snapshot DROP COLUMN internal;"
        "ALTER TABLE snapshot DROP COLUMN spec; PRAGMA user_version=1;";
    ASSERT_EQ(sqlite3_exec(raw, back, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(raw);
    sqlite3_close(raw);
    store_ = *SqliteStore::open(file);
    const auto found = *store_->find_key("demo");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->id(), box.id());
    EXPECT_FALSE(found->retention.idle);
    EXPECT_EQ(store_->owner().size(), 32u);
}

TEST_F(StoreRows, TheOwnerStaysTheSame)
{
    const std::string owner = store_->owner();
    store_.reset();
    store_ = *SqliteStore::open(dir_ + "/store.db");
    EXPECT_EQ(store_->owner(), owner);
}

/// A snapshot takes minutes, and commands run meanwhile.
TEST_F(StoreRows, WhoChangesARecordThatHeReadLongAgoTakesNoUseBack)
{
    auto wanted = record();
    wanted.retention.idle = 300s;
    const auto box = *store_->insert(wanted, {});
    ASSERT_TRUE(store_->touch(box.id(), at(200)));
    auto changed = box;
    changed.spec.labels["team"] = "blue";
    const auto updated = store_->update(changed, {});
    ASSERT_TRUE(updated) << updated.error().line();
    EXPECT_EQ(updated->last_used, at(200));
    EXPECT_EQ(updated->due, at(500));
    EXPECT_EQ(**store_->find(box.id()), *updated);
}

TEST_F(StoreRows, ASnapshotIsTheLatestOfItsSandboxWithTheSameWrite)
{
    const auto box = *store_->insert(record(), {});
    const auto latest = [&] { return (*store_->find(box.id()))->latest_snapshot; };
    const SnapshotRecord one{.id = "snap_1", .sandbox = box.id(), .kind = "x", .spec = box.spec};
    ASSERT_TRUE(store_->add_snapshot(one, {}));
    EXPECT_EQ(latest(), one.id);
    auto step = one;
    step.id = "snap_2";
    step.internal = true;
    ASSERT_TRUE(store_->add_snapshot(step, {}));
    EXPECT_EQ(latest(), one.id) << "a step of something else";
    auto changed = box;
    changed.spec.labels["team"] = "blue";
    EXPECT_EQ(store_->update(changed, {}).error().code, Code::Conflict) << "he has not seen the snapshot";
    EXPECT_EQ(latest(), one.id);
}

} // namespace
} // namespace berth::store
