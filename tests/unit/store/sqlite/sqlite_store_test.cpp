#include "store/sqlite/sqlite_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"

namespace berth::store {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class OwnClock final : public Clock {
public:
    WallTime now() const override { return time; }
    SteadyTime steady() const override { return {}; }
    WallTime time{std::chrono::hours(24 * 20'000)};
};

class SqliteStoreTest : public ::testing::Test {
protected:
    SqliteStoreTest()
    {
        char path[] = "/tmp/berth-store-XXXXXX";
        dir_ = ::mkdtemp(&path[0]);
        file_ = dir_ + "/store.db";
    }
    ~SqliteStoreTest() override { std::filesystem::remove_all(dir_); }

    std::unique_ptr<SqliteStore> store()
    {
        auto opened = SqliteStore::open(file_, clock_);
        EXPECT_TRUE(opened) << opened.error().line();
        return opened ? *std::move(opened) : nullptr;
    }

    SandboxRecord record(const std::string& key = {}) const
    {
        SandboxRecord out;
        out.spec.id = make_sandbox_id(system_clock());
        out.spec.policy = *policy::preset("sandbox");
        out.spec.mounts = {{.source = "/src", .target = "/work", .mode = Mount::Mode::ReadWrite}};
        out.key = key;
        out.backend = "local";
        out.created = out.last_used = clock_.time;
        return out;
    }
    static LedgerEvent event(const std::string& sandbox, const std::string& type)
    {
        return {.sandbox = sandbox, .type = type, .data = {{"why", "test"}}};
    }

    OwnClock clock_;
    std::string dir_, file_;
};

/// Whether any other process has a lock on the file, as a process without one sees it.
bool locked_by_others(const std::string& file)
{
    const pid_t child = ::fork();
    if (child == 0) {
        const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
        struct flock all{.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0};
        ::_exit(fd >= 0 && ::fcntl(fd, F_GETLK, &all) == 0 && all.l_type != F_UNLCK ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
}

TEST_F(SqliteStoreTest, AnotherOneInTheSameProcessLeavesItItsLocks)
{
    const auto first = store();
    ASSERT_TRUE(first->insert(record(), {}));
    ASSERT_TRUE(locked_by_others(file_));
    const auto second = store();
    EXPECT_TRUE(locked_by_others(file_)) << "whoever leaves next takes the journal away";
}

TEST_F(SqliteStoreTest, KeepsARecordAcrossOpenings)
{
    auto wanted = record("demo");
    {
        const auto inserted = store()->insert(wanted, {event(wanted.id(), "sandbox_created")});
        ASSERT_TRUE(inserted) << inserted.error().line();
        wanted = *inserted;
    }
    const auto again = store();
    EXPECT_EQ(**again->find(wanted.id()), wanted);
    EXPECT_EQ(**again->find_key("demo"), wanted);
    EXPECT_FALSE(*again->find("sbx_nobody"));
    const auto events = again->ledger({});
    ASSERT_EQ(events->size(), 1u);
    EXPECT_EQ(events->front().type, "sandbox_created");
    EXPECT_EQ(events->front().time, clock_.time);
    EXPECT_EQ(events->front().data.at("why").as_string(), "test");
}

/// JSON has no other text: it would come back changed, and a changed path is another directory.
TEST_F(SqliteStoreTest, RefusesWhatWouldNotComeBackAsItWas)
{
    const auto kept = store();
    const auto refuse = [&](const std::function<void(SandboxSpec&)>& spoil) {
        auto wanted = record();
        spoil(wanted.spec);
        const auto inserted = kept->insert(wanted, {event(wanted.id(), "sandbox_created")});
        EXPECT_FALSE(inserted);
        return inserted ? std::string() : inserted.error().message;
    };
    EXPECT_THAT(refuse([](auto& spec) { spec.env["A"] = "\xff"; }), HasSubstr("/env/A"));
    EXPECT_THAT(refuse([](auto& spec) { spec.labels["\xff"] = "x"; }), HasSubstr("/labels/\\xff"));
    EXPECT_THAT(refuse([](auto& spec) { spec.mounts[0].source = "/src\xff"; }),
                HasSubstr("/mounts/0/source"));
    EXPECT_THAT(refuse([](auto& spec) { spec.volumes = {{.name = "\xff", .target = "/v"}}; }),
                HasSubstr("/volumes/0/name"));
    EXPECT_THAT(refuse([](auto& spec) { spec.labels["a"] = std::string(9u << 20, 'x'); }),
                HasSubstr("bytes"));
    EXPECT_EQ(kept->list({})->size(), 0u);
    EXPECT_EQ(kept->ledger({})->size(), 0u);
}

TEST_F(SqliteStoreTest, IsClosedToOthers)
{
    const auto s = store();
    ASSERT_TRUE(s->append({event("a", "x")}));
    for (const char* part : {"", "-wal", "-shm"}) {
        struct stat st{};
        ASSERT_EQ(::stat((file_ + part).c_str(), &st), 0) << part;
        EXPECT_EQ(st.st_mode & 0777, 0600u) << part;
    }
}

TEST_F(SqliteStoreTest, RefusesAnUpdateOfWhatSomebodyElseChanged)
{
    const auto one = store(), other = store();
    const auto first = *one->insert(record("k"), {});
    auto mine = first, theirs = first;
    theirs.state = State::Running;
    ASSERT_TRUE(other->update(theirs, {}));
    mine.state = State::Failed;
    const auto refused = one->update(mine, {event(mine.id(), "never")});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict);
    EXPECT_EQ((*one->find(mine.id()))->state, State::Running);
    EXPECT_TRUE(one->ledger({})->empty()) << "a refused write leaves no event";
}

TEST_F(SqliteStoreTest, GivesAKeyToOneLiveRecord)
{
    const auto s = store();
    auto first = *s->insert(record("k"), {});
    const auto second = s->insert(record("k"), {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::Conflict);
    EXPECT_THAT(second.error().message, HasSubstr("'k'"));
    first.superseded_by = "sbx_other";
    ASSERT_TRUE(s->update(first, {}));
    const auto third = s->insert(record("k"), {});
    ASSERT_TRUE(third) << third.error().line();
    EXPECT_EQ((*s->find_key("k"))->id(), third->id());
    EXPECT_TRUE(s->insert(record(), {}));
    EXPECT_TRUE(s->insert(record(), {})) << "no key is no claim";
}

TEST_F(SqliteStoreTest, ListsByPrefixNameAndPage)
{
    const auto s = store();
    std::vector<std::string> ids;
    for (int i = 0; i < 5; ++i) {
        auto one = record();
        one.spec.id = fmt::format("sbx_{:026}", i);
        one.spec.name = i == 3 ? "special" : "";
        one.state = i == 4 ? State::Destroyed : State::Running;
        ids.push_back(one.id());
        ASSERT_TRUE(s->insert(one, {}));
    }
    const auto names = [](const auto& records) {
        std::vector<std::string> out;
        for (const auto& one : *records) out.push_back(one.id());
        return out;
    };
    EXPECT_THAT(names(s->list({})), ElementsAre(ids[0], ids[1], ids[2], ids[3]));
    EXPECT_EQ(s->list({.with_dead = true})->size(), 5u);
    EXPECT_THAT(names(s->list({.name = "special"})), ElementsAre(ids[3]));
    EXPECT_THAT(names(s->list({.id_prefix = ids[2]})), ElementsAre(ids[2]));
    EXPECT_TRUE(s->list({.backend = "docker"})->empty());
    EXPECT_THAT(names(s->list({.after = ids[1], .limit = 1})), ElementsAre(ids[2]));
}

TEST_F(SqliteStoreTest, NumbersEventsUpwardsAlsoWhenTheClockStepsBack)
{
    const auto s = store();
    const auto first = *s->append({event("a", "x"), event("b", "y")});
    clock_.time -= 24h;
    const auto second = *s->append({event("a", "z")});
    EXPECT_GT(second, first);
    const auto of_a = s->ledger({.sandbox = "a"});
    ASSERT_EQ(of_a->size(), 2u);
    EXPECT_EQ((*of_a)[1].type, "z");
    EXPECT_EQ(s->ledger({.after = first})->size(), 1u);
    EXPECT_EQ(s->ledger({.type = "y"})->size(), 1u);
    EXPECT_EQ(s->append({}).error().code, Code::Invalid);
}

TEST_F(SqliteStoreTest, TellsTheLastEventsInTheirOrder)
{
    const auto s = store();
    ASSERT_TRUE(s->append({event("a", "1"), event("b", "2"), event("a", "3"), event("b", "4")}));
    const auto types = [&](const LedgerQuery& query) {
        std::string out;
        for (const auto& one : *s->ledger(query)) out += one.type;
        return out;
    };
    EXPECT_EQ(types({.limit = 2, .newest = true}), "34");
    EXPECT_EQ(types({.limit = 9, .newest = true}), "1234");
    EXPECT_EQ(types({.limit = 1, .sandbox = "a", .newest = true}), "3");
    EXPECT_EQ(types({.limit = 1, .type = "2", .newest = true}), "2");
    EXPECT_EQ(types({.limit = 2}), "12");
}

TEST_F(SqliteStoreTest, KeepsSnapshotsNewestFirst)
{
    const auto s = store();
    SnapshotRecord one{
        .id = "snap_1", .sandbox = "a", .kind = "berth_layer", .bytes = 7, .created = clock_.time};
    SnapshotRecord two = one;
    two.id = "snap_2";
    two.created += 1s;
    ASSERT_TRUE(s->add_snapshot(one, {event("a", "sandbox_snapshotted")}));
    ASSERT_TRUE(s->add_snapshot(two, {}));
    EXPECT_EQ(s->add_snapshot(two, {}).error().code, Code::Conflict);
    EXPECT_EQ(**s->find_snapshot("snap_1"), one);
    EXPECT_THAT(*s->snapshots("a"), ElementsAre(two, one));
    EXPECT_TRUE(s->snapshots("b")->empty());
    ASSERT_TRUE(s->size_snapshot("snap_1", 11));
    EXPECT_EQ((*s->find_snapshot("snap_1"))->bytes, 11u);
    EXPECT_EQ((*s->find_snapshot("snap_2"))->bytes, 7u);
    ASSERT_TRUE(s->size_snapshot("snap_3", 11)) << "already gone";
    ASSERT_TRUE(s->remove_snapshot("snap_2", {event("a", "snapshot_deleted")}));
    ASSERT_TRUE(s->remove_snapshot("snap_2", {event("a", "snapshot_deleted")})) << "already gone";
    EXPECT_EQ(s->ledger({.type = "snapshot_deleted"})->size(), 1u);
}

TEST_F(SqliteStoreTest, TheLastSnapshotIsTheNewestAlsoWhenTheClockStepsBack)
{
    const auto s = store();
    std::vector<std::string> ids;
    for (const auto step : {0h, -24h, 1h, 24h}) {
        clock_.time += step;
        SnapshotRecord taken;
        taken.id = make_snapshot_id(clock_);
        taken.sandbox = "sbx_a";
        taken.kind = "layer";
        taken.created = clock_.time;
        ASSERT_TRUE(s->add_snapshot(taken, {}));
        ids.insert(ids.begin(), taken.id);
    }
    std::vector<std::string> listed;
    for (const auto& one : *s->snapshots("sbx_a")) listed.push_back(one.id);
    EXPECT_EQ(listed, ids);
    EXPECT_EQ(s->snapshots("sbx_a")->front().created, clock_.time) << "the right time, once it is later";
}

TEST_F(SqliteStoreTest, LeasesToOneHolderUntilTheTimeIsOver)
{
    const auto one = store(), other = store();
    EXPECT_TRUE(*one->lease("key", "p1", 10s));
    EXPECT_FALSE(*other->lease("key", "p2", 10s));
    EXPECT_TRUE(*one->lease("key", "p1", 10s)) << "renewed";
    clock_.time += 11s;
    EXPECT_TRUE(*other->lease("key", "p2", 10s));
    EXPECT_TRUE(one->release("key", "p1")) << "not its own any more: nothing happens";
    EXPECT_FALSE(*one->lease("key", "p1", 10s));
    EXPECT_TRUE(other->release("key", "p2"));
    EXPECT_TRUE(*one->lease("key", "p1", 10s));
}

TEST_F(SqliteStoreTest, RefusesAStoreOfANewerVersion)
{
    ASSERT_TRUE(store());
    {
        auto db = Connection::open(file_);
        ASSERT_TRUE(db->execute("PRAGMA user_version = 99"));
    }
    const auto refused = SqliteStore::open(file_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("newer berth"));
}

TEST_F(SqliteStoreTest, ARecordThatIsDamagedIsNamedAndHidesNoOther)
{
    const auto wanted = record("demo");
    const auto other = record("other");
    ASSERT_TRUE(store()->insert(wanted, {}));
    {
        auto db = Connection::open(file_);
        ASSERT_TRUE(db->execute("UPDATE sandbox SET spec = '{'"));
    }
    ASSERT_TRUE(store()->insert(other, {}));
    const auto found = store()->find(wanted.id());
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::Internal) << "nobody asked for anything wrong";
    EXPECT_THAT(found.error().message, HasSubstr("record of sandbox " + wanted.id()));
    const auto all = store()->list({});
    ASSERT_TRUE(all) << all.error().line();
    ASSERT_EQ(all->size(), 2u);
    for (const auto& one : *all) EXPECT_EQ(one.damage.empty(), one.id() == other.id()) << one.id();
}

TEST_F(SqliteStoreTest, TellsWhatIsNoStore)
{
    std::ofstream(file_) << std::string(5000, 'x');
    const auto refused = SqliteStore::open(file_);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("damaged"));
    const auto nowhere = SqliteStore::open(dir_ + "/no/store.db");
    ASSERT_FALSE(nowhere);
    EXPECT_EQ(nowhere.error().code, Code::NotFound);
}

TEST_F(SqliteStoreTest, ThreadsShareACommitAndLoseNothing)
{
    const auto s = store();
    std::atomic<int> failed = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 16; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i)
                if (!s->append({event(fmt::format("s{}", t), fmt::format("e{}", i))})) ++failed;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(failed, 0);
    const auto all = s->ledger({});
    ASSERT_EQ(all->size(), 320u);
    const auto of_one = s->ledger({.sandbox = "s7"});
    ASSERT_EQ(of_one->size(), 20u);
    for (std::size_t i = 0; i < of_one->size(); ++i) EXPECT_EQ((*of_one)[i].type, fmt::format("e{}", i));
}

TEST_F(SqliteStoreTest, OneBadWriteOfACommitUndoesOnlyItself)
{
    const auto s = store();
    ASSERT_TRUE(s->insert(record("k"), {}));
    std::atomic<int> good = 0, conflicts = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 12; ++t)
        threads.emplace_back([&, t] {
            const auto done = s->insert(record(t % 2 == 0 ? "k" : ""), {event("e", "created")});
            if (done)
                ++good;
            else if (done.error().code == Code::Conflict)
                ++conflicts;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(good, 6);
    EXPECT_EQ(conflicts, 6);
    EXPECT_EQ(s->list({})->size(), 7u);
    EXPECT_EQ(s->ledger({})->size(), 6u);
}

TEST_F(SqliteStoreTest, ANewFileHasTheOwnerAndTheRecordsOfTheLostOne)
{
    auto kept = record("demo");
    kept.state = State::Running;
    kept.retention = {.idle = 60s, .on_idle = OnIdle::Destroy, .lifetime = 1h};
    kept.spec.env["TOKEN"] = "secret";
    auto gone = record("gone");
    SnapshotRecord snapshot{
        .id = make_snapshot_id(system_clock()), .sandbox = kept.id(), .kind = "berth_layer"};
    snapshot.backend = "local";
    snapshot.created = clock_.time;
    snapshot.spec = kept.spec;
    std::string owner;
    {
        const auto s = store();
        owner = s->owner();
        kept = *s->insert(kept, {});
        gone.state = State::Running;
        gone = *s->insert(gone, {});
        gone.state = State::Destroyed;
        ASSERT_TRUE(s->update(gone, {}));
        ASSERT_TRUE(s->add_snapshot(snapshot, {}));
        kept.latest_snapshot = snapshot.id;
    }
    struct stat mode{};
    ASSERT_EQ(::stat((dir_ + "/record/" + kept.id()).c_str(), &mode), 0);
    EXPECT_EQ(mode.st_mode & 07777, 0600u) << "it holds what the store holds";
    std::ofstream(dir_ + "/record/" + make_sandbox_id(system_clock())) << "{\"spec\":";
    std::ofstream(file_)
        << "this is no database, whatever it was before; and it is long enough to be looked at";
    const auto damaged = SqliteStore::open(file_, clock_);
    ASSERT_FALSE(damaged);
    EXPECT_THAT(damaged.error().line(), HasSubstr("mv " + file_ + " " + file_ + ".damaged"));
    std::filesystem::rename(file_, file_ + ".damaged");

    const auto s = store();
    EXPECT_EQ(s->owner(), owner);
    auto again = **s->find(kept.id());
    again.due = kept.due;
    EXPECT_EQ(again, kept);
    EXPECT_FALSE(*s->find(gone.id())) << "it was over";
    EXPECT_EQ(**s->find_snapshot(snapshot.id), snapshot);
    const auto told = s->ledger({})->front();
    EXPECT_EQ(told.type, "berth.store_rebuilt");
    EXPECT_EQ(told.data.at("unreadable").as_array().size(), 1u);
}

/// The journal of a fresh file is chosen by the first; SQLite does not let the others wait for that.
TEST_F(SqliteStoreTest, ManyMayOpenAFreshOneAtTheSameTime)
{
    for (int round = 0; round < 20; ++round) {
        const std::string fresh = fmt::format("{}/{}.db", dir_, round);
        std::latch begin(8);
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([&] {
                begin.arrive_and_wait();
                const auto opened = SqliteStore::open(fresh, clock_);
                EXPECT_TRUE(opened) << opened.error().line();
            });
        for (auto& thread : threads) thread.join();
    }
}

TEST_F(SqliteStoreTest, OfManyProcessesOneGetsTheKey)
{
    ASSERT_TRUE(store());
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            auto own = SqliteStore::open(file_);
            const auto done = own ? (*own)->insert(record("same"), {event("x", "sandbox_created")})
                                  : Result<SandboxRecord>(std::unexpected(own.error()));
            ::_exit(done ? 0 : done.error().code == Code::Conflict ? 1 : 2);
        }
        children.push_back(pid);
    }
    int made = 0, refused = 0;
    for (const pid_t pid : children) {
        int status = 0;
        ::waitpid(pid, &status, 0);
        made += WEXITSTATUS(status) == 0 ? 1 : 0;
        refused += WEXITSTATUS(status) == 1 ? 1 : 0;
    }
    EXPECT_EQ(made, 1);
    EXPECT_EQ(refused, 7);
    EXPECT_EQ(store()->ledger({.type = "sandbox_created"})->size(), 1u);
}

TEST_F(SqliteStoreTest, WhatWasAcknowledgedIsThereAfterAKill)
{
    ASSERT_TRUE(store());
    int ends[2];
    ASSERT_EQ(::pipe(&ends[0]), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
        auto own = SqliteStore::open(file_);
        for (;;) {
            const auto number = (*own)->append({event("s", "e")});
            if (!number || ::write(ends[1], &*number, sizeof *number) != sizeof *number) ::_exit(1);
        }
    }
    ::close(ends[1]);
    std::uint64_t last = 0;
    for (int i = 0; i < 50; ++i)
        ASSERT_EQ(::read(ends[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    ::kill(pid, SIGKILL);
    while (::read(ends[0], &last, sizeof last) == static_cast<ssize_t>(sizeof last)) {
    }
    ::close(ends[0]);
    ::waitpid(pid, nullptr, 0);
    EXPECT_GE(store()->ledger({})->back().sequence, last);
}

} // namespace
} // namespace berth::store
