#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/local/one_shot.hpp"
#include "backend/local/sandbox.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "shell_root.hpp"
#include "unit/image/oci_builder.hpp"

namespace berth::local {
namespace {

using image::OciBuilder;
using image::RawTar;
using ::testing::HasSubstr;

class OciTest : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (busybox().empty()) GTEST_SKIP() << "needs a static busybox: apt-get install busybox-static";
        auto state = StateDir::open(dir_ / "state");
        ASSERT_TRUE(state) << state.error().line();
        state_.emplace(*std::move(state));
    }

    [[nodiscard]] SandboxSpec spec(const std::string& path) const
    {
        SandboxSpec out;
        out.id = make_sandbox_id(system_clock());
        out.root = {.kind = Template::Kind::Oci, .path = path, .tag = {}};
        out.policy = *policy::preset("sandbox");
        out.policy.limits = {};
        return out;
    }
    struct Ended {
        std::string out;
        std::string error;
        std::vector<std::string> notes;
    };
    [[nodiscard]] Ended run(const SandboxSpec& spec, const std::string& script) const
    {
        ExecSpec exec;
        exec.argv = {"/bin/sh", "-c", script};
        Ended ended;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { ended.out += event.bytes; };
        const auto outcome = run_one_shot(*state_, spec, exec, streams, {});
        if (!outcome) ended.error = outcome.error().line();
        if (outcome) ended.notes = outcome->notes;
        return ended;
    }

    sys::TempDir dir_;
    std::optional<StateDir> state_;
};

TEST_F(OciTest, ShowsItsLayersAsOne)
{
    const OciBuilder image(dir_);
    image.image(
        {{with_shell(busybox()).file("etc/a", "low").file("etc/b", "low").file("var/x", "low").done()},
         {RawTar().file("etc/.wh.a", "").file("etc/c", "mid").done()},
         {RawTar().file("var/.wh..wh..opq", "").file("var/y", "top").file("etc/b", "top").done()}});
    const auto ended =
        run(spec(image.path()), "ls /etc /var; cat /etc/b /etc/c; echo new > /etc/a; cat /etc/a; "
                                "rm /etc/c; ls /etc");
    EXPECT_EQ(ended.out, "/etc:\nb\nc\nmachine-id\n\n/var:\ny\ntopmidnew\na\nb\nmachine-id\n") << ended.error;
}

TEST_F(OciTest, GivesProcessesWhatTheImageAsksFor)
{
    const OciBuilder image(dir_);
    image.image(
        {{with_shell(busybox()).file("etc/passwd", "root:x:0:0::/root:/bin/sh\n").done()},
         {RawTar()
              .file("etc/passwd", "root:x:0:0::/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n")
              .file("etc/group", "staff:x:50:\n")
              .done()}},
        {{"Env", json::Array{"FROM=image", "BOTH=image"}}, {"WorkingDir", "/srv/app"}, {"User", "node"}});
    auto wanted = spec(image.path());
    wanted.env["BOTH"] = "spec";
    const auto ended = run(wanted, "echo $FROM $BOTH $HOME; pwd; id -u; id -un");
    EXPECT_EQ(ended.out, "image spec /home/node\n/srv/app\n1000\nnode\n") << ended.error;
    EXPECT_THAT(ended.notes, ::testing::ElementsAre(HasSubstr("commands run as node")));
    wanted.workdir = "/etc";
    EXPECT_EQ(run(wanted, "pwd").out, "/etc\n");
}

TEST_F(OciTest, TheDefaultUserIsTheImagesElseRoot)
{
    const OciBuilder plain(dir_, "plain");
    plain.image({{with_shell(busybox()).done()}});
    const OciBuilder ours(dir_, "ours");
    ours.image({{with_shell(busybox()).file("etc/passwd", "user:x:1000:1000::/home/me:/bin/sh\n").done()}},
               {{"User", "root"}});
    const bool root = ::geteuid() == 0;
    EXPECT_EQ(run(spec(plain.path()), "id -u; echo $HOME").out, root ? "0\n/root\n" : "1000\n/home/user\n");
    EXPECT_EQ(run(spec(ours.path()), "id -u; pwd").out, "1000\n/home/me\n");
    if (!root) return;
    const OciBuilder grouped(dir_, "grouped");
    grouped.image({{with_shell(busybox()).file("etc/group", "staff:x:50:\n").done()}},
                  {{"User", "33:staff"}});
    EXPECT_EQ(run(spec(grouped.path()), "id -u; id -g").out, "33\n50\n");
}

TEST_F(OciTest, AKeptSandboxIsFoundWithItsLayers)
{
    const OciBuilder image(dir_);
    image.image({{with_shell(busybox()).done()}, {RawTar().file("etc/x", "1").done()}},
                {{"Env", json::Array{"FROM=image"}}});
    const auto wanted = spec(image.path());
    auto made = Sandbox::create(*state_, wanted, {});
    ASSERT_TRUE(made) << made.error().line();
    auto found = Sandbox::open(*state_, wanted.id);
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_EQ(found->spec(), wanted);
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"/bin/sh", "-c", "echo $FROM; cat /etc/x"};
    ASSERT_TRUE(found->exec(exec));
    auto follower = found->follow(exec.id, 0);
    ASSERT_TRUE(follower) << follower.error().line();
    std::string out;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!follower->ended()) {
        const auto events = follower->next(until);
        ASSERT_TRUE(events) << events.error().line();
        for (const auto& event : *events) out += event.bytes;
    }
    EXPECT_EQ(out, "image\n1");
    EXPECT_TRUE(found->destroy());
}

TEST_F(OciTest, FileRulesHoldInAnImage)
{
    const OciBuilder image(dir_);
    image.image({{with_shell(busybox()).done()}, {RawTar().symlink("sbin", "bin").done()}});
    auto wanted = spec(image.path());
    wanted.policy = *policy::preset("read-only");
    wanted.policy.limits = {};
    EXPECT_EQ(run(wanted, "(echo x > /etc/f) 2>/dev/null || echo no").out, "no\n");
}

TEST_F(OciTest, APlainPathTellsThatItIsAnImage)
{
    const OciBuilder image(dir_);
    image.image({{with_shell(busybox()).file("etc/x", "1").done()}});
    EXPECT_EQ(parse_template(image.path())->kind, Template::Kind::Oci);
    ASSERT_EQ(::system(("tar -C '" + image.path() + "' -cf '" + (dir_ / "a.tar") + "' .").c_str()), 0);
    auto wanted = spec(image.path());
    wanted.root = *parse_template(dir_ / "a.tar");
    EXPECT_EQ(run(wanted, "cat /etc/x").out, "1");
}

} // namespace
} // namespace berth::local
