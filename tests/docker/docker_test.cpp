// The docker backend with an engine of its own, and what others do to its containers behind our back: with
// the client of docker, as a person would.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "berth/berth.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Docker, SixtyFourProcessesGetOneSandbox)
{
    constexpr int count = 64;
    int ends[2];
    ASSERT_EQ(::pipe(&ends[0]), 0);
    made("warm-up"); // the image, once
    std::vector<pid_t> children;
    for (int i = 0; i < count; ++i) {
        const pid_t pid = ::fork();
        if (pid == 0) {
            std::string line = "failed\n";
            if (auto own = Berth::open({.data = data_, .threads = 1})) {
                const auto got = (*own)->run((*own)->lifecycle().acquire(wish("race")));
                line = got ? got->record.native + "\n" : got.error().line() + "\n";
            }
            [[maybe_unused]] const auto n = ::write(ends[1], line.data(), line.size());
            ::_exit(0);
        }
        children.push_back(pid);
    }
    for (const pid_t pid : children) ::waitpid(pid, nullptr, 0);
    ::close(ends[1]);
    std::string all;
    char piece[4096];
    for (ssize_t n; (n = ::read(ends[0], &piece[0], sizeof piece)) > 0;)
        all.append(&piece[0], static_cast<std::size_t>(n));
    ::close(ends[0]);
    const auto first = all.substr(0, all.find('\n') + 1);
    std::string want;
    for (int i = 0; i < count; ++i) want += first;
    EXPECT_EQ(all, want);
    EXPECT_EQ(command("docker ps -aq --filter label=berth.sandbox.key=race | wc -l"), "1");
}

TEST_F(Docker, ARemovedContainerComesBackFromItsSnapshot)
{
    made();
    shell("demo", "echo kept > ~/note");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().snapshot("demo", {})));
    command("docker rm -f " + ours());
    const auto again = acquire(wish("demo"));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->tier, Tier::Restored);
    EXPECT_EQ(again->record.generation, 2u);
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
    EXPECT_EQ(command("docker images -q --filter label=berth.snapshot | wc -l"), "1");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().collect({.grace = 0s, .keep_last = 0})));
    EXPECT_EQ(command("docker images -q --filter label=berth.snapshot"), "") << "unused images of ours go";
}

TEST_F(Docker, ATemplateNobodyUsesIsCollectedOnceItIsOld)
{
    made();
    const auto own = command("docker inspect -f '{{.Config.Image}}' " + ours());
    // The same as it would look in some years.
    const std::string age =
        "import json, sys, tarfile, io\n"
        "a = tarfile.open(fileobj=sys.stdin.buffer, mode='r|'); b = tarfile.open(fileobj=sys.stdout.buffer, "
        "mode='w|')\n"
        "parts = {m.name: (m, a.extractfile(m).read() if m.isfile() else None) for m in a}\n"
        "manifest = json.loads(parts['manifest.json'][1])\n"
        "manifest[0]['RepoTags'] = ['berth-template:old']\n"
        "config = json.loads(parts[manifest[0]['Config']][1]); config['created'] = '2020-01-01T00:00:00Z'\n"
        "manifest[0]['Config'] = 'old.json'\n"
        "for name in manifest[0]['Layers']: b.addfile(parts[name][0], io.BytesIO(parts[name][1]))\n"
        "for name, value in (('old.json', config), ('manifest.json', manifest)):\n"
        "    text = json.dumps(value).encode(); m = tarfile.TarInfo(name); m.size = len(text)\n"
        "    b.addfile(m, io.BytesIO(text))\n"
        "b.close()\n";
    std::ofstream(data_ + "/age.py") << age;
    command("docker save " + own + " | python3 " + data_ + "/age.py | docker load -q");
    const auto templates = [] { return command("docker images -q --filter label=berth.template | wc -l"); };
    const auto before = templates();
    ASSERT_TRUE(berth_->run((*berth_->backend("docker"))->collect(data_, true)));
    EXPECT_EQ(templates(), before) << "a dry run removes nothing";
    command("docker create --network none --name keeps berth-template:old true");
    ASSERT_TRUE(berth_->run((*berth_->backend("docker"))->collect(data_, false)));
    EXPECT_EQ(templates(), before) << "a container is made of it";
    command("docker rm keeps");
    const auto collected = berth_->run((*berth_->backend("docker"))->collect(data_, false));
    ASSERT_TRUE(collected) << collected.error().line();
    EXPECT_THAT(collected->objects, testing::Contains("image berth-template:old"));
    EXPECT_EQ(command("docker images -q berth-template:old"), "");
    EXPECT_EQ(shell("demo", "echo on"), "on\n");
}

TEST_F(Docker, TheEngineTellsWhatASandboxUses)
{
    made();
    shell("demo", "python3 -c 'sum(range(3_000_000))'");
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    const auto usage = berth_->run((*berth_->backend("docker"))->usage(Lifecycle::handle(record)));
    ASSERT_TRUE(usage) << usage.error().line();
    ASSERT_TRUE(usage->cpu && usage->memory);
    EXPECT_GT(usage->cpu->count(), 10'000) << "three million additions take more than ten milliseconds";
    EXPECT_GT(usage->memory->count, 0u);
}

TEST_F(Docker, ARenamedContainerIsTheSame)
{
    made();
    command("docker rename " + ours() + " somebody-likes-it");
    EXPECT_EQ(shell("demo", "echo here"), "here\n");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("demo", 1s)));
    EXPECT_EQ(acquire(wish("demo"))->tier, Tier::Started);
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
    EXPECT_THAT(ours(), IsEmpty());
}

TEST_F(Docker, StoppedByItsEngineItTellsTheEndOfItsExecs)
{
    made();
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"sleep", "100"};
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, exec)));
    command("docker stop " + ours());
    const auto ended =
        berth_->run((*berth_->backend("docker"))
                        ->wait(Lifecycle::handle(record), exec.id, system_clock().steady() + 60s));
    ASSERT_TRUE(ended && *ended) << (ended ? "" : ended.error().line());
    EXPECT_EQ((*ended)->status.signal(), 9) << to_string((*ended)->status);
    EXPECT_EQ(berth_->run(berth_->lifecycle().refresh("demo"))->state, State::Stopped);
    EXPECT_EQ(acquire(wish("demo"))->tier, Tier::Started);
}

TEST_F(Docker, PausedByItsEngineItIsResumed)
{
    made();
    command("docker pause " + ours());
    EXPECT_EQ(berth_->run(berth_->lifecycle().refresh("demo"))->state, State::Paused);
    const auto again = acquire(wish("demo"));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(shell("demo", "echo again"), "again\n");
}

TEST_F(Docker, AnEngineOutOfReachIsAnErrorAndLosesNothing)
{
    made();
    shell("demo", "echo kept > ~/note");
    const std::string before = std::getenv("DOCKER_HOST");
    ::setenv("DOCKER_HOST", "unix:///nowhere/docker.sock", 1);
    berth_ = open();
    command("DOCKER_HOST=" + before + " docker stop " +
            command("DOCKER_HOST=" + before + " docker ps -q --filter label=berth.sandbox.id"));
    const auto refused = acquire(wish("demo"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unavailable) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("/nowhere/docker.sock"));
    ::setenv("DOCKER_HOST", before.c_str(), 1);
    berth_ = open();
    EXPECT_EQ(acquire(wish("demo"))->tier, Tier::Started);
    EXPECT_EQ(shell("demo", "cat ~/note"), "kept\n");
}

TEST_F(Docker, GarbageInsteadOfAnImageMakesNothing)
{
    std::filesystem::create_directory(data_ + "/bad");
    std::ofstream(data_ + "/bad/image.tar") << std::string(10'000, 'x');
    CreateRequest request(wish("x").spec);
    request.spec.id = make_sandbox_id(system_clock());
    request.from = SnapshotSource{
        .id = make_snapshot_id(system_clock()), .kind = "docker_image_tar", .directory = data_ + "/bad"};
    const auto refused = berth_->run((*berth_->backend("docker"))->create(request));
    ASSERT_FALSE(refused);
    EXPECT_THAT(ours(), IsEmpty());
    EXPECT_EQ(std::filesystem::exists(data_ + "/docker/" + request.spec.id), false);
}

TEST_F(Docker, ASnapshotIsCompressedAndOneThatIsNotIsReadAsWell)
{
    made();
    shell("demo", "echo kept > ~/note; head -c 8000000 /dev/zero > ~/zeros");
    const auto taken = berth_->run(berth_->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    const std::string lies = data_ + "/snapshot/" + taken->record.id;
    const auto size = std::filesystem::file_size(lies + "/image.tar.zst");
    EXPECT_EQ(size, taken->record.bytes);
    command("docker commit berth-" + berth_->run(berth_->lifecycle().find("demo"))->native +
            " plain:1; mkdir " + data_ + "/plain " + data_ + "/cut; docker save -o " + data_ +
            "/plain/image.tar plain:1; docker rmi plain:1; head -c " + std::to_string(size - 1) + " " + lies +
            "/image.tar.zst > " + data_ + "/cut/image.tar.zst");
    EXPECT_LT(size, std::filesystem::file_size(data_ + "/plain/image.tar") * 3 / 4);

    CreateRequest request(wish("x").spec);
    request.from = SnapshotSource{.id = {}, .kind = "docker_image_tar", .directory = {}};
    for (const char* from : {"/cut", "/plain"}) {
        request.spec.id = make_sandbox_id(system_clock());
        request.from->id = make_snapshot_id(system_clock());
        request.from->directory = data_ + from;
        auto* const where = *berth_->backend("docker");
        const auto again = berth_->run(where->create(request));
        EXPECT_EQ(again.has_value(), from == std::string_view("/plain"))
            << from << (again ? "" : again.error().line());
        if (!again) EXPECT_EQ(again.error().code, Code::Invalid) << again.error().line();
        EXPECT_TRUE(berth_->run(where->destroy({.sandbox = request.spec.id, .native = request.spec.id})));
    }
    const auto restored = berth_->run(berth_->lifecycle().restore(taken->record.id, {}));
    ASSERT_TRUE(restored) << restored.error().line();
    EXPECT_EQ(shell("demo", "cat ~/note; stat -c %s ~/zeros"), "kept\n8000000\n");
}

TEST_F(Docker, AOneShotTellsAllThatIsPrinted)
{
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"sh", "-c", "head -c 3000000 /dev/zero; exit 3"};
    exec.log_limit = Bytes{~0ull}; // as `berth run` asks for it
    std::size_t told = 0;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { told += event.bytes.size(); };
    auto spec = wish("x").spec;
    spec.id = make_sandbox_id(system_clock());
    const auto outcome =
        berth_->run((*berth_->backend("docker"))->run(spec, std::move(exec), std::move(streams)));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_EQ(outcome->status.code(), 3);
    EXPECT_EQ(told, 3'000'000u);
    EXPECT_THAT(ours(), IsEmpty());
}

TEST_F(Docker, AnImageWithoutAShellRunsItsPrograms)
{
    std::filesystem::create_directories(data_ + "/root/bin");
    // A program of every Debian that needs no library.
    std::filesystem::copy_file("/sbin/ldconfig", data_ + "/root/bin/ldconfig");
    auto request = wish("bare");
    request.spec.root = {.kind = Template::Kind::Directory, .path = data_ + "/root", .tag = {}};
    request.spec.user = "root";
    request.spec.workdir = "/";
    const auto acquired = acquire(request);
    ASSERT_TRUE(acquired) << acquired.error().line();
    ExecSpec exec;
    exec.argv = {"/bin/ldconfig", "--version"};
    std::string output;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
    ASSERT_TRUE(berth_->run(berth_->exec("bare", std::move(exec), std::move(streams))));
    EXPECT_THAT(output, testing::StartsWith("ldconfig "));
}

TEST_F(Docker, LabelsAndKeysWithCommasQuotesAndUnicodeAreFoundAgain)
{
    const std::string odd = "a,b=\"c\" 'd' {e} \\ \xc3\xbc\xe2\x82\xac";
    auto request = wish("key:" + odd);
    request.spec.labels = {{"odd", odd}, {"od,d", "1"}, {"berth.sandbox.id", "sbx_forged"}};
    const auto first = acquire(request);
    ASSERT_TRUE(first) << first.error().line();
    EXPECT_EQ(command("docker inspect -f '{{index .Config.Labels \"odd\"}}' " + ours()), odd);
    berth_ = open();
    const auto again = acquire(request);
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->tier, Tier::Attached);
    EXPECT_EQ(again->record.id(), first->record.id());
    const auto all = berth_->run((*berth_->backend("docker"))->scan());
    ASSERT_TRUE(all) << all.error().line();
    ASSERT_EQ(all->size(), 1u);
    EXPECT_EQ(all->front().sandbox.sandbox, first->record.id()) << "a label of the caller's forges nothing";
    EXPECT_EQ(all->front().labels.key, "key:" + odd);
}

TEST_F(Docker, MovesHereAndBackWithItsWork)
{
    auto request = wish("mover");
    request.backend = "local";
    const auto begun = acquire(request);
    ASSERT_TRUE(begun) << begun.error().line();
    shell("mover", "cd; mkdir d; echo one > d/a; chmod 640 d/a; ln -s a d/link; python3 -m venv "
                   "--without-pip v; python3 -c "
                   "\"import os; os.setxattr('d/a', 'user.note', b'kept')\"");
    shell("mover", "echo out > /opt-outside", "root");
    const auto there = berth_->run(berth_->lifecycle().move("mover", {.backend = "docker"}));
    ASSERT_TRUE(there) << there.error().line();
    EXPECT_EQ(there->record.id(), begun->record.id());
    EXPECT_EQ(there->record.generation, 2u);
    EXPECT_EQ(there->record.backend, "docker");
    EXPECT_EQ(there->kind, "berth_rootfs_tar");
    EXPECT_THAT(there->left, testing::Not(IsEmpty()));
    const std::string look =
        "cd; cat d/link; stat -c %a d/a; readlink d/link; v/bin/python -c 'print(6*7)'; python3 -c "
        "\"import os; print(os.getxattr('d/a', 'user.note').decode())\"; cat /opt-outside";
    EXPECT_EQ(shell("mover", look), "one\n640\na\n42\nkept\nout\n");
    EXPECT_THAT(*berth_->run((*berth_->backend("local"))->scan()), IsEmpty());
    const auto back = berth_->run(berth_->lifecycle().move("mover", {.backend = "local"}));
    ASSERT_TRUE(back) << back.error().line();
    EXPECT_EQ(back->record.generation, 3u);
    EXPECT_EQ(shell("mover", look), "one\n640\na\n42\nkept\nout\n");
    EXPECT_THAT(ours(), IsEmpty());
    EXPECT_EQ(berth_->store().ledger({.type = "berth.sandbox_moved"})->size(), 2u);
}

TEST_F(Docker, AMoveThatFailsLeavesEverythingAsItWas)
{
    auto request = wish("mover");
    request.backend = "local";
    request.spec.root = {};
    ASSERT_TRUE(acquire(request));
    shell("mover", "echo one > ~/a");
    const auto refused = berth_->run(berth_->lifecycle().move("mover", {.backend = "docker"}));
    ASSERT_FALSE(refused) << "template host is no image";
    EXPECT_EQ(refused.error().code, Code::Unsupported) << refused.error().line();
    EXPECT_EQ(shell("mover", "cat ~/a"), "one\n");
    EXPECT_THAT(ours(), IsEmpty());
    const auto moved =
        berth_->run(berth_->lifecycle().move("mover", {.backend = "docker", .root = wish("").spec.root}));
    ASSERT_TRUE(moved) << moved.error().line();
    EXPECT_THAT(moved->left, testing::Contains(HasSubstr("template host")));
    EXPECT_EQ(shell("mover", "cat ~/a"), "one\n");
}

} // namespace
} // namespace berth
