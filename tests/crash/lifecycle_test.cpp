// The crash matrix: each verb of a kept sandbox is killed at every label it passes. Whoever comes next
// reconciles; then nothing may be lost (the file written before is there) and, once everything is
// destroyed, nothing may be left: no process, control group, instance, layer or payload.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "backend/local/layer_merge.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "berth/berth.hpp"
#include "lifecycle/lot.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "support/docker_engine.hpp"
#include "support/tsan.hpp"

namespace berth {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

using Act = std::function<Status(Berth&)>;

AcquireRequest wish()
{
    AcquireRequest out;
    out.key = "demo";
    const auto& tested = test::TestedBackend::get();
    out.backend = tested.name;
    if (!tested.root_tar.empty())
        out.spec.root = {.kind = Template::Kind::Tar, .path = tested.root_tar, .tag = {}};
    out.spec.policy = *policy::preset("sandbox");
    out.spec.policy.limits.pids = ::geteuid() == 0 ? std::optional<std::uint64_t>(200) : std::nullopt;
    return out;
}

template <class T> Status dropped(const Result<T>& result)
{
    if (result) return {};
    return std::unexpected(result.error());
}

Result<std::string> shell(Berth& berth, const std::string& script)
{
    ExecSpec exec;
    exec.argv = {"sh", "-c", script};
    exec.timeout = 20s;
    std::string output;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
    BERTH_TRY(const auto outcome, berth.run(berth.exec("demo", std::move(exec), std::move(streams))));
    if (!outcome.status.success())
        return fail(Code::Internal, "'{}' ended with {}", script, to_string(outcome.status));
    return output;
}

Status made(Berth& berth)
{
    BERTH_CHECK(dropped(berth.run(berth.lifecycle().acquire(wish()))));
    return dropped(shell(berth, "echo kept > ~/note"));
}

Status stopped(Berth& berth)
{
    BERTH_CHECK(made(berth));
    return dropped(berth.run(berth.lifecycle().stop("demo", 100ms)));
}

Status with_snapshot(Berth& berth)
{
    BERTH_CHECK(made(berth));
    BERTH_CHECK(dropped(berth.run(berth.lifecycle().snapshot("demo", {}))));
    return dropped(shell(berth, "echo late > ~/note"));
}

/// On as many layers as are merged, and one snapshot that nothing needs.
Status deep(Berth& berth)
{
    BERTH_CHECK(made(berth));
    const std::size_t layers = test::TestedBackend::get().name == "local" ? local::kMergeFrom : 1;
    for (std::size_t i = 0; i < layers; ++i)
        BERTH_CHECK(dropped(berth.run(berth.lifecycle().snapshot("demo", {}))));
    return dropped(berth.run(berth.lifecycle().stop("demo", 100ms)));
}

Status has(Berth& berth, const std::set<std::string>& allowed)
{
    BERTH_TRY(const auto note, shell(berth, "cat ~/note"));
    if (allowed.contains(note)) return {};
    return fail(Code::Internal, "the file has '{}'", note);
}

Status has_kept(Berth& berth) { return has(berth, {"kept\n"}); }

/// Made on local, from what both backends can start from.
Status made_on_local(Berth& berth)
{
    auto request = wish();
    request.backend = "local";
    BERTH_CHECK(dropped(berth.run(berth.lifecycle().acquire(std::move(request)))));
    return dropped(shell(berth, "echo kept > ~/note"));
}

Act move_to(const std::string& backend)
{
    return [=](Berth& b) { return dropped(b.run(b.lifecycle().move("demo", {.backend = backend}))); };
}

/// Nobody paused it but its mover, who is dead: to reconcile is enough, once what he started has let go of
/// his lock.
Status runs_and_has_kept(Berth& berth)
{
    BERTH_TRY(const auto record, berth.run(berth.lifecycle().find("demo")));
    BERTH_TRY(auto* const where, berth.backend(record.backend));
    for (const auto end = system_clock().steady() + 60s;;) {
        BERTH_TRY(const auto found, berth.run(where->inspect(Lifecycle::handle(record))));
        if (found.state == State::Running) return has_kept(berth);
        if (system_clock().steady() > end)
            return fail(Code::Internal, "its instance on {} is {}", record.backend, to_string(found.state));
        std::this_thread::sleep_for(10ms);
        BERTH_CHECK(dropped(berth.run(berth.lifecycle().collect({.grace = 0s}))));
    }
}

/// Its command has run once or not at all, and whoever looks is told of an end.
Status ran_at_most_once(Berth& berth)
{
    BERTH_CHECK(has_kept(berth));
    BERTH_TRY(const auto record, berth.run(berth.lifecycle().find("demo")));
    BERTH_TRY(auto* const where, berth.backend(record.backend));
    for (const auto end = system_clock().steady() + 60s;; std::this_thread::sleep_for(10ms)) {
        BERTH_TRY(const auto all, berth.run(where->execs(Lifecycle::handle(record))));
        const auto running = std::ranges::count_if(all, &ExecInfo::running);
        if (running == 0) break;
        for (const auto& one : all)
            if (one.running) BERTH_CHECK(berth.run(where->settle_exec(Lifecycle::handle(record), one.id)));
        if (system_clock().steady() > end) return fail(Code::Internal, "{} of its execs run on", running);
    }
    // Of the relays that stand beside commands on another machine none is left but this command's own.
    BERTH_TRY(const auto left,
              shell(berth, "cat ~/ran 2>/dev/null; for i in $(seq 100); do n=$(grep -lz '^xs$' "
                           "/proc/[0-9]*/cmdline 2>/dev/null | wc -l); [ $n -le 1 ] && break; sleep 0.1; "
                           "done; [ $n -le 1 ] || echo $n relays"));
    if (left.empty() || left == "ran\n") return {};
    return fail(Code::Internal, "after its end there is '{}'", left);
}

/// One that was made ahead becomes the key's: by whoever has made it.
Status claimed(Berth& berth)
{
    const auto filled = [](Lot& lot) -> Task<Status> {
        BERTH_CO_CHECK(co_await lot.begin());
        co_await lot.refill();
        co_return Status{};
    };
    Lot lot(berth.lifecycle(), "local", 1);
    lot.expect(wish().spec);
    BERTH_CHECK(berth.run(filled(lot)));
    BERTH_CHECK(dropped(berth.run(berth.lifecycle().acquire(wish()))));
    if (lot.counts().claimed != 1) return fail(Code::Internal, "it was not a parked one");
    // The next one stays parked, and is nobody's when we are gone.
    return berth.run(filled(lot));
}

struct Verb {
    const char* name;
    Act prepare;
    Act act;
    Act check;
    bool local_only = false;
};

std::vector<Verb> verbs()
{
    const auto nothing = [](Berth&) -> Status { return {}; };
    std::vector<Verb> all{
        {"create", nothing, [](Berth& b) { return dropped(b.run(b.lifecycle().acquire(wish()))); }, made},
        {"claim", nothing, claimed, made, true},
        {"start", stopped, [](Berth& b) { return dropped(b.run(b.lifecycle().use("demo"))); }, has_kept},
        {"stop", made, [](Berth& b) { return dropped(b.run(b.lifecycle().stop("demo", 100ms))); }, has_kept},
        {"exec", made, [](Berth& b) { return dropped(shell(b, "echo ran >> ~/ran")); }, ran_at_most_once},
        {"snapshot", made, [](Berth& b) { return dropped(b.run(b.lifecycle().snapshot("demo", {}))); },
         has_kept},
        {"restore", with_snapshot,
         [](Berth& b) -> Status {
             BERTH_TRY(const auto all, b.store().snapshots({}));
             return dropped(b.run(b.lifecycle().restore(all.front().id, {})));
         },
         [](Berth& b) { return has(b, {"kept\n", "late\n"}); }},
        {"fork", made, [](Berth& b) { return dropped(b.run(b.lifecycle().fork("demo", {.count = 2}))); },
         has_kept},
        {"collect", deep,
         [](Berth& b) { return dropped(b.run(b.lifecycle().collect({.grace = 0s, .keep_last = 0}))); },
         has_kept},
        {"destroy", made, [](Berth& b) { return dropped(b.run(b.lifecycle().destroy("demo"))); },
         [](Berth& b) -> Status {
             const auto found = b.run(b.lifecycle().find("demo"));
             return found ? dropped(b.run(b.lifecycle().destroy("demo"))) : Status{};
         }},
    };
    // Between two backends: where there is an engine, there are two.
    if (const char* tested = std::getenv("BERTH_TEST_BACKEND"); tested != nullptr && tested != "local"sv) {
        all.push_back({"move_there", made_on_local, move_to(tested), runs_and_has_kept});
        all.push_back({"move_back", made, move_to("local"), runs_and_has_kept});
    }
    return all;
}

class CrashMatrix : public ::testing::TestWithParam<Verb> {
protected:
    CrashMatrix()
    {
        (void)test::TestedBackend::get(); // an engine is started before its children could be ours
        // What a killed process started becomes our child: nothing of it can hide.
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        char path[] = "/tmp/berth-matrix-XXXXXX";
        data_ = ::mkdtemp(&path[0]);
    }
    ~CrashMatrix() override
    {
        ::prctl(PR_SET_CHILD_SUBREAPER, 0);
        std::error_code ignored;
        fs::remove_all(data_, ignored);
    }

    struct Ended {
        bool killed = false;
        std::string error; ///< empty: it went well
    };
    /// A process of its own for each step, as a person's would be.
    Ended in_process(const Act& act, const std::string& variable = {}, const std::string& value = {})
    {
        int ends[2];
        EXPECT_EQ(::pipe2(&ends[0], O_CLOEXEC), 0);
        const pid_t pid = ::fork();
        if (pid == 0) {
            if (!variable.empty()) ::setenv(variable.c_str(), value.c_str(), 1);
            Status done;
            if (auto opened = Berth::open({.data = data_, .threads = 2}))
                done = act(**opened);
            else
                done = std::unexpected(opened.error());
            if (!done) (void)write_all(ends[1], done.error().line());
            ::_exit(0);
        }
        ::close(ends[1]);
        Ended ended;
        // Whatever it started may have the pipe, too; its own end is what counts.
        int status = 0;
        ::waitpid(pid, &status, 0);
        char text[4096];
        ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
        const ssize_t n = ::read(ends[0], &text[0], sizeof text);
        if (n > 0) ended.error.assign(&text[0], static_cast<std::size_t>(n));
        ::close(ends[0]);
        ended.killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        if (!ended.killed && status != 0) ended.error += fmt::format(" (wait status {})", status);
        return ended;
    }

    static Status reconcile(Berth& berth)
    {
        return dropped(berth.run(berth.lifecycle().collect({.grace = 0s})));
    }

    static Status destroy_all(Berth& berth)
    {
        BERTH_TRY(const auto all, berth.store().list({}));
        for (const auto& record : all)
            BERTH_CHECK(dropped(berth.run(berth.lifecycle().destroy(record.id()))));
        BERTH_TRY(const auto report, berth.run(berth.lifecycle().collect({.grace = 0s, .keep_last = 0})));
        for (const auto& action : report.actions)
            if (!action.failed.empty()) return fail(Code::Internal, "{}: {}", action.object, action.failed);
        for (const std::string& name : {test::TestedBackend::get().name, std::string("local")}) {
            BERTH_TRY(auto* const where, berth.backend(name));
            BERTH_TRY(const auto found, berth.run(where->scan()));
            if (!found.empty()) return fail(Code::Internal, "{} is left", found.front().sandbox.native);
        }
        return {};
    }

    /// Everything that should not be there when everything was destroyed.
    std::vector<std::string> leaks() const
    {
        std::vector<std::string> found;
        for (const char* part : {"sandbox", "docker", "layer", "snapshot", "trash"}) {
            std::error_code missing;
            for (const auto& entry : fs::directory_iterator(data_ + "/" + part, missing)) {
                const auto name = entry.path().filename().string();
                if (!name.starts_with(".") && !name.ends_with(".lock") && name != "lock")
                    found.push_back(name);
            }
        }
        for (int tries = 0;; ++tries) {
            int status = 0;
            pid_t pid = 0;
            while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
            }
            if (pid < 0) break;
            if (tries == 6000) {
                found.emplace_back("a process");
                break;
            }
            std::this_thread::sleep_for(10ms);
        }
        for (const auto& group : groups()) found.push_back(group);
        for (auto& one : in_engine()) found.push_back(std::move(one));
        return found;
    }

    /// What only the engine itself can tell of.
    static std::vector<std::string> in_engine()
    {
        std::vector<std::string> found;
        if (test::TestedBackend::get().name != "docker") return found;
        FILE* const told = ::popen("docker ps -aq --filter label=berth.sandbox.id && "
                                   "docker images -q --filter label=berth.snapshot",
                                   "r");
        char line[256];
        while (::fgets(&line[0], sizeof line, told) != nullptr)
            found.push_back(fmt::format("in the engine: {}", &line[0]));
        if (::pclose(told) != 0) found.emplace_back("an engine that does not answer");
        return found;
    }

    /// Control groups that bear the id of a sandbox the store knows or knew.
    std::vector<std::string> groups() const
    {
        std::set<std::string> ids = seen_;
        const auto store = store::SqliteStore::open(data_ + "/store.db");
        if (store)
            for (const auto& record : *(*store)->list({.with_dead = true, .limit = 10'000}))
                ids.insert(record.id());
        std::vector<std::string> found;
        std::error_code failed;
        const auto options = fs::directory_options::skip_permission_denied;
        for (auto it = fs::recursive_directory_iterator("/sys/fs/cgroup", options, failed);
             !failed && it != end(it); it.increment(failed)) {
            const std::string name = it->path().filename();
            const auto at = name.find("sbx_");
            if (at != std::string::npos && ids.contains(name.substr(at, 30))) found.push_back(name);
        }
        return found;
    }

    /// What is parked has a group before any record knows its id.
    void note_instances()
    {
        std::error_code missing;
        for (const auto& entry : fs::directory_iterator(data_ + "/sandbox", missing))
            seen_.insert(entry.path().filename().string().substr(0, 30));
    }

    /// The keeper of an instance, by the word it was started with; 0: none.
    pid_t keeper_of(const std::string& native) const
    {
        for (const auto& entry : fs::directory_iterator("/proc")) {
            const std::string pid = entry.path().filename();
            if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
            const auto line = read_file(entry.path() / "cmdline", 4_KiB);
            if (line && line->starts_with("k\0"sv) && line->find("/" + native + '\0') != std::string::npos)
                return std::stoi(pid);
        }
        return 0;
    }

    /// Its zombie, which is ours, has no command line any more.
    bool ends(const std::string& native) const
    {
        for (const auto until = system_clock().steady() + 30s; system_clock().steady() < until;
             std::this_thread::sleep_for(5ms))
            if (keeper_of(native) == 0) return true;
        return false;
    }

    std::vector<std::string> labels_of(const Verb& verb)
    {
        const std::string file = data_ + "/labels";
        if (verb.prepare) EXPECT_EQ(in_process(verb.prepare).error, "");
        EXPECT_EQ(in_process(verb.act, "BERTH_TEST_LABELS", file).error, "");
        EXPECT_EQ(in_process(destroy_all).error, "");
        std::vector<std::string> out;
        std::ifstream in(file);
        for (std::string line; std::getline(in, line);)
            // A template is made once, and its steps are walked elsewhere.
            if (!line.starts_with("template:") && std::ranges::find(out, line) == out.end())
                out.push_back(line);
        fs::remove(file);
        return out;
    }

    std::string data_;
    std::set<std::string> seen_;
};

TEST_P(CrashMatrix, LosesAndLeavesNothing)
{
    BERTH_NEEDS_ONE_THREAD();
    if (const auto& lacking = test::TestedBackend::get().lacking; !lacking.empty()) GTEST_SKIP() << lacking;
    const Verb verb = GetParam();
    if (verb.local_only && test::TestedBackend::get().name != "local")
        GTEST_SKIP() << "backend local alone makes sandboxes ahead";
    const auto labels = labels_of(verb);
    ASSERT_THAT(labels, testing::Not(testing::IsEmpty()));
    ASSERT_THAT(leaks(), testing::IsEmpty()) << "before anything was killed";
    std::size_t losses = 0, left = 0;
    for (const auto& label : labels) {
        SCOPED_TRACE(fmt::format("{} killed at: {}", verb.name, label));
        ASSERT_EQ(in_process(verb.prepare).error, "");
        EXPECT_TRUE(in_process(verb.act, "BERTH_TEST_KILL", label).killed);
        note_instances();
        const auto reconciled = in_process(reconcile);
        EXPECT_EQ(reconciled.error, "");
        const auto checked = in_process(verb.check);
        EXPECT_EQ(checked.error, "") << "lost";
        if (!checked.error.empty() || !reconciled.error.empty()) ++losses;
        EXPECT_EQ(in_process(destroy_all).error, "");
        const auto found = leaks();
        EXPECT_THAT(found, testing::IsEmpty()) << "left behind";
        left += found.size();
        if (HasFailure()) break;
    }
    const std::string row = fmt::format("{:<10} {:<7} {:>3} steps   losses {}   leaks {}\n", verb.name,
                                        test::TestedBackend::get().name, labels.size(), losses, left);
    std::cout << row;
    if (const char* table = std::getenv("BERTH_MATRIX")) std::ofstream(table, std::ios::app) << row;
}

class ClaimMatrix : public CrashMatrix {};

TEST_P(ClaimMatrix, WhatIsNobodysEndsWithItsMakerAndWhatIsClaimedDoesNot)
{
    BERTH_NEEDS_ONE_THREAD();
    if (test::TestedBackend::get().name != "local")
        GTEST_SKIP() << "backend local alone makes sandboxes ahead";
    const Verb verb = GetParam();
    std::size_t claimed = 0;
    for (const auto& label : labels_of(verb)) {
        SCOPED_TRACE("killed at: " + label);
        EXPECT_TRUE(in_process(verb.act, "BERTH_TEST_KILL", label).killed);
        std::error_code missing;
        std::vector<std::string> ours;
        for (const auto& entry : fs::directory_iterator(data_ + "/sandbox", missing)) {
            const std::string native = entry.path().filename();
            if (!fs::exists(entry.path() / "instance"))
                EXPECT_TRUE(ends(native)) << native;
            else
                ours.push_back(native);
        }
        note_instances();
        claimed += ours.size();
        for (const auto& native : ours) {
            const pid_t before = keeper_of(native);
            EXPECT_EQ(in_process(made).error, "");
            EXPECT_NE(before, 0);
            EXPECT_EQ(keeper_of(native), before) << "it was not the one that was claimed";
        }
        EXPECT_EQ(in_process(destroy_all).error, "");
        EXPECT_THAT(leaks(), testing::IsEmpty());
        if (HasFailure()) break;
    }
    EXPECT_GE(claimed, 3u);
}

INSTANTIATE_TEST_SUITE_P(Claim, ClaimMatrix, testing::Values(Verb{"claim", {}, claimed, {}, true}),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Verbs, CrashMatrix, testing::ValuesIn(verbs()),
                         [](const auto& info) { return std::string(info.param.name); });

} // namespace
} // namespace berth
