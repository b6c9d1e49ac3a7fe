// Images: what others call theirs stays theirs, and what an image asks for (a working directory, a volume) is
// carried or refused, never forgotten.

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DockerImages : public Docker {
protected:
    /// An image of the small root with something more to its configuration.
    static void import(const std::string& name, const std::string& changes = {})
    {
        command("docker import " + changes + " " + engine().root_tar() + " " + name);
    }
    static std::string id_of(const std::string& image)
    {
        return command("docker inspect -f '{{.Id}}' " + image);
    }
    Result<Acquired> acquire_from(const std::string& key, const std::string& root)
    {
        auto request = wish(key);
        request.spec.root = *parse_template(root);
        return acquire(std::move(request));
    }
    void TearDown() override
    {
        Docker::TearDown();
        if (!IsSkipped())
            command("docker images -q --filter reference='theirs:*' | sort -u | xargs -r docker rmi -f");
    }
};

TEST_F(DockerImages, AnArchiveTakesNoNameAway)
{
    import("theirs:1", "-c 'ENV WHO=archive'");
    command("docker save theirs:1 -o " + data_ + "/image.tar && docker rmi theirs:1");
    import("theirs:1", "-c 'ENV WHO=other'");
    const auto before = id_of("theirs:1");
    const auto made = acquire_from("archived", "tar:" + data_ + "/image.tar");
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(shell("archived", "echo $WHO"), "archive\n");
    EXPECT_EQ(id_of("theirs:1"), before) << "the archive's name is somebody's here";
    command("docker rmi -f theirs:1");
    const auto again = acquire_from("once-more", "tar:" + data_ + "/image.tar");
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_THAT(command("docker images -q theirs:1"), IsEmpty()) << "nor is a name made";
}

TEST_F(DockerImages, AnArchiveOfSeveralNeedsATag)
{
    import("theirs:1", "-c 'ENV WHO=one'");
    import("theirs:2", "-c 'ENV WHO=two'");
    command("docker save theirs:1 theirs:2 -o " + data_ + "/both.tar");
    const auto which = acquire_from("which", "oci:" + data_ + "/both.tar");
    ASSERT_FALSE(which);
    EXPECT_THAT(which.error().line(), HasSubstr("theirs:2"));
    const auto two = acquire_from("two", "oci:" + data_ + "/both.tar:2");
    ASSERT_TRUE(two) << two.error().line();
    EXPECT_EQ(shell("two", "echo $WHO"), "two\n");
}

TEST_F(DockerImages, AHostileArchiveIsRefused)
{
    import("theirs:1");
    command("docker save theirs:1 -o " + data_ + "/image.tar");
    const auto with = [&](const std::string& name, const std::string& change) {
        const std::string out = data_ + "/" + name + ".tar";
        std::ofstream(data_ + "/change.py")
            << "import sys, tarfile, io\n"
               "a = tarfile.open(sys.argv[1]); b = tarfile.open(sys.argv[2], 'w')\n"
               "for m in a:\n"
               "    if m.name != 'manifest.json': b.addfile(m, a.extractfile(m) if m.isfile() else None)\n"
               "text = a.extractfile('manifest.json').read()\n"
               "def add(name, data):\n"
               "    m = tarfile.TarInfo(name); m.size = len(data); b.addfile(m, io.BytesIO(data))\n"
               "def link(name, target):\n"
               "    m = tarfile.TarInfo(name); m.type = tarfile.SYMTYPE; m.linkname = target; b.addfile(m)\n"
            << change << "\nb.close()\n";
        command("python3 " + data_ + "/change.py " + data_ + "/image.tar " + out);
        const auto refused = acquire_from(name, "oci:" + out);
        EXPECT_FALSE(refused) << name;
        return refused ? std::string{} : refused.error().line();
    };
    EXPECT_THAT(with("none", ""), HasSubstr("no manifest.json"));
    EXPECT_THAT(with("linked", "link('manifest.json', 'elsewhere'); add('elsewhere', text)"),
                HasSubstr("no business"));
    EXPECT_THAT(
        with("through", "add('manifest.json', text); link('way', '.'); add('way/manifest.json', text)"),
        HasSubstr("no business"));
    EXPECT_THAT(with("broken", "add('manifest.json', b'[{]')"), testing::Not(IsEmpty()));
    EXPECT_THAT(with("large", "add('manifest.json', b' ' * 5_000_000)"), HasSubstr("too large"));
    EXPECT_THAT(ours(), IsEmpty());
}

TEST_F(DockerImages, ADamagedArchiveIsRefusedAndLeavesNothing)
{
    // A layer that the engine has already is not read again, and nobody would see the damage.
    command(
        fmt::format("cp {0} {1}/root.tar && date +%s.%N > {1}/mark && tar -C {1} -rf {1}/root.tar ./mark && "
                    "docker import {1}/root.tar theirs:1",
                    engine().root_tar(), data_));
    command("docker save theirs:1 -o " + data_ + "/image.tar && docker rmi theirs:1");
    const auto images = [] { return command("docker images -aq --no-trunc | sort -u"); };
    const auto before = images();
    const auto size = std::filesystem::file_size(data_ + "/image.tar");
    const auto damaged = [&](const std::string& name, const std::string& how) {
        const std::string path = data_ + "/" + name + ".tar";
        command(fmt::format("cp {0}/image.tar {1} && {2}{1}", data_, path, how));
        for (const std::string kind : {"oci:", "tar:"}) {
            const auto refused = acquire_from(name, kind + path);
            EXPECT_FALSE(refused) << kind << name;
        }
        EXPECT_THAT(ours(), IsEmpty()) << name;
        EXPECT_EQ(images(), before) << name;
    };
    damaged("short", fmt::format("truncate -s {} ", size / 2));
    damaged("changed",
            fmt::format("printf damaged | dd bs=1 conv=notrunc status=none seek={} of=", size / 2));
    const auto whole = acquire_from("whole", "oci:" + data_ + "/image.tar");
    ASSERT_TRUE(whole) << whole.error().line();
}

TEST_F(DockerImages, ATagThatMovedChangesNothingThatStands)
{
    import("theirs:1", "-c 'ENV WHO=first'");
    const auto made = acquire_from("stays", "image:theirs:1");
    ASSERT_TRUE(made) << made.error().line();
    shell("stays", "echo kept > ~/note");
    import("theirs:1", "-c 'ENV WHO=second'");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("stays", 0s)));
    const auto again = acquire_from("stays", "image:theirs:1");
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->tier, Tier::Started);
    EXPECT_EQ(again->record.id(), made->record.id());
    EXPECT_EQ(shell("stays", "echo $WHO; cat ~/note"), "first\nkept\n");
    ASSERT_TRUE(acquire_from("new", "image:theirs:1"));
    EXPECT_EQ(shell("new", "echo $WHO"), "second\n");
}

TEST_F(DockerImages, AWorkspaceIsWhereTheImageSays)
{
    import("theirs:1", "-c 'WORKDIR /srv/app'");
    const auto made = acquire_from("app", "image:theirs:1");
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(shell("app", "pwd; echo kept > note"), "/srv/app\n");
    const auto taken = berth_->run(berth_->lifecycle().snapshot("app", {.kind = "berth_workspace_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_THAT(taken->notes, testing::Contains(HasSubstr("only /srv/app is part of it")));
    const auto restored =
        berth_->run(berth_->lifecycle().restore(taken->record.id, {.as_new = true, .key = "again"}));
    ASSERT_TRUE(restored) << restored.error().line();
    EXPECT_EQ(shell("again", "cat /srv/app/note"), "kept\n");
    const auto moved = berth_->run(berth_->lifecycle().move(
        "app", {.backend = "local", .kind = "berth_workspace_tar", .root = Template{}}));
    ASSERT_TRUE(moved) << moved.error().line();
    EXPECT_THAT(moved->carried, testing::Contains(HasSubstr("/srv/app")));
    EXPECT_THAT(moved->notes, testing::Contains("what lay in /srv/app lies in /home/user now"));
    EXPECT_EQ(shell("app", "cat note"), "kept\n");
}

TEST_F(DockerImages, AVolumeIsRefusedByNameNotForgotten)
{
    import("theirs:1", "-c 'VOLUME /home/user/data' -c 'VOLUME /var/db'");
    const auto made = acquire_from("vol", "image:theirs:1");
    ASSERT_TRUE(made) << made.error().line();
    shell("vol", "echo in > /home/user/data/note; echo in > /var/db/note", "root");
    for (const char* kind : {"docker_image_tar", "berth_rootfs_tar", "berth_workspace_tar"}) {
        const auto refused = berth_->run(berth_->lifecycle().snapshot("vol", {.kind = kind}));
        ASSERT_FALSE(refused) << kind;
        EXPECT_EQ(refused.error().code, Code::Unsupported) << refused.error().line();
        EXPECT_THAT(refused.error().line(), HasSubstr("/home/user/data")) << kind;
    }
    const auto moved = berth_->run(berth_->lifecycle().move("vol", {.backend = "local"}));
    ASSERT_FALSE(moved);
    EXPECT_THAT(moved.error().line(), HasSubstr("/var/db"));
    EXPECT_EQ(shell("vol", "cat /var/db/note"), "in\n") << "it goes on where it is";
}

} // namespace
} // namespace berth
