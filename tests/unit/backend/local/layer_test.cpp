#include "backend/local/layer_snapshot.hpp"

#include <fstream>

#include "layer_fixture.hpp"

#include "backend/local/layer_collect.hpp"
#include "backend/local/layer_merge.hpp"
#include "backend/local/stop_start.hpp"
#include "sys/cgroup.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(Layers, ASnapshotWhereNothingRunsIsARename)
{
    const auto sandbox = make(rooted());
    run(sandbox, "echo one > ~/file");
    const auto id = run(sandbox, "cat /etc/machine-id");
    const auto what = request();
    const auto taken = take(sandbox, what);
    EXPECT_EQ(taken.kind, "berth_layer");
    EXPECT_FALSE(taken.live_copy);
    EXPECT_EQ(taken.file, "manifest");
    EXPECT_EQ(taken.sha256.size(), 64u);
    EXPECT_GT(taken.elapsed.count(), 0);
    ASSERT_FALSE(taken.notes.empty());
    EXPECT_THAT(taken.notes.front(), HasSubstr("memory and processes are not part of it"));

    EXPECT_EQ(run(sandbox, "cat ~/file /etc/machine-id"), "one\n" + id) << "the sandbox goes on";
    run(sandbox, "echo two > ~/file");
    const auto record = record_of(sandbox);
    ASSERT_EQ(record.stack.size(), 1u);
    const std::string layer = dir_ + "/state/layer/" + record.stack.front();
    EXPECT_TRUE(fs::exists(layer + "/u1") && fs::exists(layer + "/u2"));
    EXPECT_FALSE(fs::exists(layer + "/w1") || fs::exists(layer + "/w2")) << "no work directory is a layer";
    const auto again = run_task(backend_->snapshot(sandbox, what));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->sha256, taken.sha256) << "asked again it finds what was made";
    EXPECT_EQ(layers().size(), 1u);
}

TEST_F(Layers, ANewSandboxStandsOnThem)
{
    const auto sandbox = make(rooted());
    run(sandbox, "echo kept > ~/file; mkdir -p ~/deep/er; ln ~/file ~/deep/link; ln -s ../file ~/deep/soft");
    const auto id = run(sandbox, "cat /etc/machine-id");
    const auto snapshot = take(sandbox);
    run(sandbox, "rm ~/file");
    const auto copy = make(from(snapshot));
    EXPECT_EQ(run(copy, "cat ~/file ~/deep/link ~/deep/soft"), "kept\nkept\nkept\n");
    EXPECT_NE(run(copy, "cat /etc/machine-id"), id);
    EXPECT_EQ(run(copy, "wc -c < /etc/machine-id"), "33\n");
    ASSERT_TRUE(run_task(backend_->destroy(sandbox)));
    run(copy, "echo own >> ~/file");
    for (int resume = 0; resume < 2; ++resume) {
        ASSERT_TRUE(run_task(backend_->stop(copy, 1s)));
        ASSERT_TRUE(run_task(backend_->start(copy)));
        EXPECT_EQ(run(copy, "cat ~/file"), "kept\nown\n");
    }
    const auto other = make(from(snapshot));
    EXPECT_EQ(run(other, "cat ~/file"), "kept\n") << "the layer did not change";
}

TEST_F(Layers, WhatWasRemovedStaysRemovedThroughTwoSnapshots)
{
    const bool root = ::geteuid() == 0;
    const auto sandbox = make(rooted());
    run(sandbox, "mkdir ~/dir ~/gone; echo x > ~/dir/x; echo f > ~/gone/f; echo a > ~/a; chmod 711 ~/dir");
    take(sandbox);
    run(sandbox, "rm -r ~/a ~/gone ~/dir; mkdir ~/dir; echo y > ~/dir/y");
    if (root)
        run(sandbox,
            "rm /usr/bin/yes; rm -r /usr/share/doc; mkdir /usr/share/doc; chmod 700 /etc; rm /etc/hosts");
    take(sandbox);
    run(sandbox, "echo z > ~/dir/z; mkdir ~/gone");
    const auto third = take(sandbox);
    const auto copy = make(from(third));
    for (const auto& one : {sandbox, copy}) {
        EXPECT_EQ(run(one, "ls ~/dir; ls -A ~/gone; test ! -e ~/a; stat -c %a ~/dir"), "y\nz\n755\n");
        if (root) {
            EXPECT_EQ(run(one, "test ! -e /usr/bin/yes && ls -A /usr/share/doc && test ! -e /etc/hosts && "
                               "stat -c %a /etc"),
                      "700\n");
        }
    }
    EXPECT_EQ(record_of(copy).stack.size(), 3u);
}

TEST_F(Layers, OfAStoppedSandboxAndItStaysStopped)
{
    const auto sandbox = make(rooted());
    run(sandbox, "echo kept > ~/file");
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 1s)));
    const auto snapshot = take(sandbox);
    EXPECT_EQ(run_task(backend_->inspect(sandbox))->state, State::Stopped);
    EXPECT_EQ(run(make(from(snapshot)), "cat ~/file"), "kept\n");
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(run(sandbox, "cat ~/file"), "kept\n");
}

/// The two files are written one after the other, so a copy that is one moment has the same number in both,
/// or the first is one ahead.
TEST_F(Layers, ACopyOfWhatRunsIsOneMomentAndDisturbsNothing)
{
    const auto sandbox = make(rooted());
    const ExecSpec exec =
        shell("mkdir ~/d; n=0; while :; do n=$((n+1)); echo $n > ~/d/a; echo $n > ~/d/b; echo $n; done");
    ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
    run(sandbox, "while [ ! -s ~/d/b ]; do :; done; truncate -s 1M ~/sparse; ln -s /nowhere ~/l; mkfifo ~/p; "
                 "rm -f /etc/hosts; true");
    const auto what = request();
    const auto taken = run_task(backend_->snapshot(sandbox, what));
    if (!can_freeze()) {
        ASSERT_FALSE(taken);
        EXPECT_EQ(taken.error().code, Code::Unsupported);
        EXPECT_THAT(taken.error().line(), HasSubstr("stop it first, or wait until no command runs"));
        return;
    }
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_TRUE(taken->live_copy);
    EXPECT_TRUE(record_of(sandbox).stack.empty()) << "the sandbox stands where it stood";
    run(sandbox, "n=$(cat ~/d/b); while [ \"$(cat ~/d/b)\" = \"$n\" ]; do :; done");
    ASSERT_TRUE(run_task(backend_->kill(sandbox, exec.id)));
    const std::string out = read_log(*backend_, sandbox, exec.id);
    std::string expected;
    for (int n = 1; expected.size() < out.size(); ++n) expected += std::to_string(n) + "\n";
    EXPECT_EQ(out, expected.substr(0, out.size())) << "a gap in what it printed";

    const auto copy = make(from(source_of(what)));
    EXPECT_EQ(run(copy, "a=$(cat ~/d/a); b=$(cat ~/d/b); [ -z \"$a\" -o -z \"$b\" ] || "
                        "[ $a = $b -o $a = $((b+1)) ] && echo same; stat -c '%s %b' ~/sparse; "
                        "readlink ~/l; test -p ~/p && echo pipe"),
              "same\n1048576 0\n/nowhere\npipe\n");
    EXPECT_EQ(run(copy, "ls /proc | grep -c '^[0-9]*$'; exit 0").size(), 2u)
        << "processes are not part of it";
}

TEST_F(Layers, SandboxesStandOnManyLayersAndNoMore)
{
    const auto sandbox = make(rooted());
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 0ms)));
    auto record = record_of(sandbox);
    const std::string home = ::geteuid() == 0 ? "root" : "home/user";
    for (std::size_t i = 0; i < kMaxStack; ++i) {
        const auto id = make_layer_id();
        const std::string path = fmt::format("{}/state/layer/{}/u1/{}", dir_, id, home);
        fs::create_directories(path);
        fs::create_directories(dir_ + "/state/layer/" + id + "/u2");
        std::ofstream(fmt::format("{}/{}", path, i)) << i;
        record.stack.push_back(id);
    }
    const UniqueFd directory(::open(directory_of(sandbox).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(write_instance(directory.get(), record));
    const auto started = run_task(backend_->start(sandbox));
    ASSERT_TRUE(started) << started.error().line();
    EXPECT_EQ(run(sandbox, "ls ~ | grep -c '^[0-9]*$'"), fmt::format("{}\n", kMaxStack));
    // Nobody has collected: the next snapshot makes one layer of all.
    const auto more = run_task(backend_->snapshot(sandbox, request()));
    ASSERT_TRUE(more) << more.error().line();
    EXPECT_EQ(record_of(sandbox).stack.size(), 2u);
    EXPECT_EQ(run(sandbox, "ls ~ | grep -c '^[0-9]*$'"), fmt::format("{}\n", kMaxStack));
    EXPECT_TRUE(check_depth(kMaxStack));
    const auto refused = check_depth(kMaxStack + 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Exhausted);
}

/// Everything a command sees of its files: kinds, modes, owners, times, links, contents, attributes.
constexpr const char* kView =
    "cd ~ && find . /etc /usr/local /usr/share/doc -printf '%p %y %m %U %G %s %T@ %l\\n' | "
    "LC_ALL=C sort; find . -type f | LC_ALL=C sort | xargs -d '\\n' cat; "
    "getfattr -R -d -h . 2>/dev/null; true";

TEST_F(Layers, MergedShowTheSame)
{
    const auto sandbox = make(rooted());
    // Each round changes what others left: over, away, another kind, back again.
    // A directory an ordinary user may not enter is not merged.
    const std::string closed = ::geteuid() == 0 ? "000" : "711";
    const std::vector<std::string> rounds{
        "rm -rf hard soft pipe; mkdir -p a/b/c; echo 1 > a/b/c/f; echo 1 > a/g; ln a/g hard; ln -s a/g soft; "
        "mkfifo pipe",
        "rm -r a/b; mkdir -p a/b own; echo 2 > a/b/new; chown 1000:1000 own 2>/dev/null; true",
        "rm a/g; mkdir a/g; echo 3 > a/g/inside; chmod 711 a",
        "rm -r a/g; echo 4 > a/g; rm soft; mkdir soft; echo 4 > soft/x",
        "rm -rf z; mv a z; mkdir a; rm hard; echo 5 > hard; chmod " + closed + " a",
        "rm -rf a; echo 6 > a; rm -f /etc/motd; rm -rf /etc/skel; mkdir /etc/skel; echo 6 > /etc/skel/only; "
        "true",
        "rm -f a; mkdir -p a/b; setfattr -n user.k -v v a 2>/dev/null; touch -d 2001-02-03 a/b; rm -rf "
        "/etc/skel; true",
        "setfattr -x user.k a 2>/dev/null; mkdir -p /etc/skel; echo 8 > /etc/skel/other; chmod 700 a/b; "
        "chown 0:0 own 2>/dev/null; true",
    };
    for (std::size_t i = 0; i < kMergeFrom; ++i) {
        run(sandbox, fmt::format("cd ~; mkdir -p n; echo {0} > n/{0}; rm -f n/{1}; {2}", i, i / 2,
                                 rounds[i % rounds.size()]));
        take(sandbox);
    }
    ASSERT_EQ(record_of(sandbox).stack.size(), kMergeFrom);
    const auto before = run(sandbox, kView);
    EXPECT_THAT(before, HasSubstr("/etc/skel/other"));
    ASSERT_TRUE(run_task(backend_->stop(sandbox, 0ms)));
    collect(true);
    EXPECT_EQ(record_of(sandbox).stack.size(), kMergeFrom);
    collect();
    const auto merged = record_of(sandbox).stack;
    EXPECT_EQ(merged.size(), 1u);
    EXPECT_EQ(layers().size(), kMergeFrom + 1) << "snapshots name the others";
    ASSERT_TRUE(run_task(backend_->start(sandbox)));
    EXPECT_EQ(run(sandbox, kView), before);
    fs::remove_all(dir_ + "/snapshots");
    collect();
    EXPECT_EQ(layers(), merged) << "it stands alone";
    EXPECT_EQ(run(sandbox, kView), before);
    run(sandbox, "cd ~; echo over > z/g; rm -r n");
    EXPECT_EQ(run(sandbox, "cd ~; cat z/g; ls"), "over\na\nhard\nown\npipe\nsoft\nz\n");
}

TEST_F(Layers, RefusesOtherKindsAndTemplates)
{
    const auto sandbox = make(rooted());
    auto what = request();
    what.kind = "docker_image_tar";
    const auto taken = run_task(backend_->snapshot(sandbox, what));
    EXPECT_EQ(taken.error().code, Code::Unsupported);
    EXPECT_THAT(taken.error().line(),
                testing::AllOf(HasSubstr("docker_image_tar"), HasSubstr("berth_layer")));
    auto snapshot = take(sandbox);
    auto wanted = from(snapshot);
    wanted.from->kind = "e2b_snapshot";
    EXPECT_EQ(run_task(backend_->create(wanted)).error().code, Code::Unsupported);
    auto manifest = *read_manifest(snapshot.directory);
    manifest.identity = "another-host";
    ASSERT_TRUE(put(snapshot, manifest));
    const auto refused = run_task(backend_->create(from(snapshot)));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict);
    EXPECT_THAT(refused.error().line(), HasSubstr("another-host"));
    EXPECT_EQ(run_task(backend_->scan())->size(), 1u) << "nothing was made";
}

TEST(LayerManifest, IsReadBackAndRefusesTheRest)
{
    const LayerManifest good{.snapshot = make_snapshot_id(system_clock()),
                             .sandbox = make_sandbox_id(system_clock()),
                             .created = WallTime(5s),
                             .root = "host",
                             .identity = "f",
                             .stack = {make_layer_id(), make_layer_id()},
                             .live_copy = true,
                             .bytes = 7};
    char path[] = "/tmp/berth-manifest-XXXXXX";
    ASSERT_NE(::mkdtemp(&path[0]), nullptr);
    EXPECT_EQ(read_manifest(path).error().code, Code::NotFound);
    const UniqueFd layers(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto text = write_manifest(path, good, layers.get());
    ASSERT_TRUE(text) << text.error().line();
    const auto read = read_manifest(path);
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(*read, good);
    fs::remove_all(path);

    const auto with = [&](std::string_view old, std::string_view text_for_it) {
        std::string out = *text;
        const auto at = out.find(old);
        EXPECT_NE(at, std::string::npos) << old;
        return out.replace(at, old.size(), text_for_it);
    };
    const std::string top = good.stack.front();
    const std::string many(200'000, ' ');
    for (const auto& bad : {
             with(top, "../../etc"),
             with(top, "lay_/../../../../../../etc/aaaaa"),
             with(top, ""),
             with("\"stack\":[", "\"stack\":[7,"),
             with("\"stack\":[", "\"more\":1,\"stack\":["),
             with("\"format\":1", "\"format\":2"),
             with("berth_layer", "berth_other"),
             with("\"live_copy\":true", "\"live_copy\":1"),
             with(good.sandbox, "sbx_short"),
             with(good.snapshot, "/"),
             with("\"bytes\":7", "\"bytes\":-7"),
             with("\"bytes\":7", "\"bytes\":7,\"bytes\":8"),
             with("\"root\":\"host\"", "\"root\":\"nonsense:x\""),
             with("\"identity\"", "\"identitat\""),
             std::string("{}"),
             std::string("[]"),
             std::string(),
             std::string("null"),
             *text + "x",
             many + *text,
         })
        EXPECT_FALSE(parse_manifest(bad)) << bad.substr(0, 200);
}

TEST_F(Layers, HostileManifestsMakeNothing)
{
    const auto sandbox = make(rooted());
    const auto snapshot = take(sandbox);
    auto manifest = *read_manifest(snapshot.directory);
    manifest.stack.push_back(make_layer_id());
    ASSERT_TRUE(put(snapshot, manifest));
    const auto missing = run_task(backend_->create(from(snapshot)));
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().line(), HasSubstr(manifest.stack.back() + " is not here"));
    // A layer that is a link leads nowhere.
    fs::create_directory_symlink("/", dir_ + "/state/layer/" + manifest.stack.back());
    EXPECT_FALSE(run_task(backend_->create(from(snapshot))));
    fs::remove(dir_ + "/state/layer/" + manifest.stack.back());
    fs::remove(snapshot.directory + "/manifest");
    fs::create_symlink("/etc/passwd", snapshot.directory + "/manifest");
    EXPECT_FALSE(run_task(backend_->create(from(snapshot))));
    EXPECT_EQ(run_task(backend_->scan())->size(), 1u) << "nothing was made";
    fs::remove(snapshot.directory + "/manifest");
}

TEST_F(Layers, CollectsExactlyWhatNobodyNames)
{
    const auto first = make(rooted());
    run(first, "echo kept > ~/file");
    const auto named = take(first); // named by the snapshot and by the sandbox
    const auto dropped = take(first);
    const auto second = make(from(dropped));
    run(second, "head -c 100000 /dev/urandom > ~/big");
    const auto alone = take(second);
    ASSERT_TRUE(run_task(backend_->destroy(second)));
    ASSERT_TRUE(run_task(backend_->drop_snapshot(dropped)));
    fs::remove_all(dropped.directory);
    fs::create_directory(dir_ + "/state/layer/.new-" + make_layer_id());
    EXPECT_EQ(collect(true).objects.size(), 1u) << "the copy that was never finished";
    EXPECT_EQ(collect().objects.size(), 1u);
    EXPECT_EQ(layers().size(), 3u) << "two of the first sandbox, one more of the last snapshot";

    fs::remove_all(alone.directory);
    const auto gone = collect(true);
    EXPECT_EQ(layers().size(), 3u) << "only told";
    EXPECT_TRUE(killed_at("collect: layer in the trash", [&] {
        auto state = StateDir::open(dir_ + "/state");
        (void)collect_layers(*state, dir_ + "/snapshots", false);
    }));
    EXPECT_TRUE(collect().objects.empty()) << "what is in the trash is gone for good";
    EXPECT_TRUE(fs::is_empty(dir_ + "/state/trash"));
    ASSERT_EQ(gone.objects.size(), 1u);
    EXPECT_THAT(gone.objects.front(), HasSubstr("layer lay_"));
    EXPECT_GE(gone.bytes, 100'000u);
    EXPECT_EQ(run(first, "cat ~/file"), "kept\n");
    ASSERT_TRUE(run_task(backend_->destroy(first)));
    EXPECT_EQ(collect().objects.size(), 1u) << "the snapshot needs the other";
    EXPECT_EQ(run(make(from(named)), "cat ~/file"), "kept\n");
}

TEST_F(Layers, AKeeperWhoseDirectoryIsGoneIsEnded)
{
    const auto kept = make(rooted()), robbed = make(rooted());
    const auto keeper = record_of(robbed).keeper;
    fs::rename(directory_of(robbed), dir_ + "/elsewhere"); // an ordinary user cannot remove all of it
    EXPECT_THAT(collect(true).objects, ElementsAre("keeper of " + robbed.native));
    EXPECT_TRUE(sys::process_of(keeper.pid)) << "only told";
    EXPECT_THAT(collect().objects, ElementsAre("keeper of " + robbed.native));
    const auto now = sys::process_of(keeper.pid);
    EXPECT_TRUE(!now || now->start_time != keeper.start_time);
    EXPECT_EQ(run(kept, "echo here"), "here\n");
    ASSERT_TRUE(run_task(backend_->destroy(robbed)));
    const UniqueFd place(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    EXPECT_TRUE(sys::remove_tree(place.get(), "elsewhere"));
}

TEST_F(Layers, DoubtKeepsEveryLayer)
{
    const auto sandbox = make(rooted());
    const auto snapshot = take(sandbox);
    ASSERT_TRUE(run_task(backend_->destroy(sandbox)));
    std::ofstream(snapshot.directory + "/manifest") << "{";
    EXPECT_FALSE(run_task(backend_->collect(dir_ + "/snapshots", false)));
    std::ofstream(snapshot.directory + "/manifest") << R"({"kind":"another","whatever":1})";
    EXPECT_EQ(collect(true).objects.size(), 1u);
    fs::remove_all(snapshot.directory);
    const auto broken = make(rooted());
    std::ofstream(directory_of(broken) + "/instance") << "{";
    EXPECT_FALSE(run_task(backend_->collect(dir_ + "/snapshots", false)));
    EXPECT_NE(run_task(backend_->inspect(broken))->health, Health::Gone);
}

/// Killed at each step of a snapshot: every file is there, the sandbox starts, and what is left over is
/// collected.
TEST_F(Layers, KilledAtEveryStepNothingIsLost)
{
    const std::vector<std::string> quiet{
        "snapshot: keeper ended", "snapshot: recorded",    "snapshot: layer named",
        "snapshot: layers made",  "sandbox's groups made", "keeper started",
        "keeper recorded",        "snapshot: synced",      "snapshot: named"};
    const std::vector<std::string> busy{"snapshot: frozen", "snapshot: copied", "snapshot: copy named",
                                        "snapshot: synced", "snapshot: named"};
    const std::vector<std::string> stopped{"snapshot: recorded", "snapshot: layer named",
                                           "snapshot: layers made", "snapshot: stacked", "snapshot: named"};
    enum class Way { Quiet, Busy, Stopped };
    const auto walk = [&](const std::string& label, Way way) {
        const bool running = way == Way::Busy;
        SCOPED_TRACE(label + (running ? ", running" : way == Way::Stopped ? ", stopped" : ""));
        const auto sandbox = make(rooted());
        run(sandbox, "echo kept > ~/file");
        const auto before = take(sandbox);
        run(sandbox, "echo more >> ~/file; echo new > ~/new");
        const ExecSpec exec = shell("n=0; while :; do n=$((n+1)); echo $n > ~/n; done");
        if (running) ASSERT_TRUE(run_task(backend_->exec(sandbox, exec)));
        if (way == Way::Stopped) ASSERT_TRUE(run_task(backend_->stop(sandbox, 1s)));
        const auto what = request();
        EXPECT_TRUE(killed_at(label, [&] {
            auto state = StateDir::open(dir_ + "/state");
            (void)take_layer(*state, sandbox.native, what);
        }));
        const auto found = run_task(backend_->inspect(sandbox));
        EXPECT_EQ(found->health, Health::Healthy);
        EXPECT_NE(found->state, State::Paused) << "nobody asked for a pause";
        ASSERT_TRUE(run_task(backend_->start(sandbox)));
        EXPECT_EQ(run(sandbox, "cat ~/file ~/new"), "kept\nmore\nnew\n");
        if (running) run(sandbox, "n=$(cat ~/n); while [ \"$(cat ~/n)\" = \"$n\" ]; do :; done");
        collect();
        EXPECT_EQ(run(sandbox, "cat ~/file ~/new"), "kept\nmore\nnew\n");
        const auto after = take(sandbox, what);
        EXPECT_EQ(after.kind, "berth_layer") << "it can be asked again";
        EXPECT_EQ(run(make(from(source_of(what))), "cat ~/file ~/new"), "kept\nmore\nnew\n");
        EXPECT_EQ(run(make(from(before)), "cat ~/file"), "kept\n");
        LocalFixture::TearDown();
        fs::remove_all(dir_ + "/snapshots");
        collect();
        EXPECT_TRUE(layers().empty());
    };
    for (const auto& label : quiet) walk(label, Way::Quiet);
    for (const auto& label : stopped) walk(label, Way::Stopped);
    if (!can_freeze()) return;
    for (const auto& label : busy) walk(label, Way::Busy);
}

TEST_F(Layers, KilledWhileMadeFromASnapshotLeavesNothing)
{
    const auto sandbox = make(rooted());
    const auto snapshot = take(sandbox);
    for (const char* label :
         {"sandbox recorded", "sandbox's groups made", "keeper started", "keeper recorded"}) {
        SCOPED_TRACE(label);
        const auto wanted = from(snapshot);
        EXPECT_TRUE(killed_at(label, [&] {
            auto state = StateDir::open(dir_ + "/state");
            Sandbox::Options options;
            options.from = wanted.from;
            (void)Sandbox::create(*state, wanted.spec, options);
        }));
        const auto made = run_task(backend_->create(wanted));
        ASSERT_TRUE(made) << made.error().line();
        EXPECT_TRUE(run_task(backend_->destroy(*made)));
    }
    collect();
    EXPECT_EQ(layers().size(), 1u);
}

} // namespace
} // namespace berth::local
