#include "core/sandbox_spec.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/scope_exit.hpp"

namespace berth {
namespace {

using ::testing::HasSubstr;

class Place {
public:
    Place()
    {
        char path[] = "/tmp/berth-spec-XXXXXX";
        if (::mkdtemp(&path[0]) == nullptr) throw std::runtime_error("mkdtemp");
        path_ = &path[0];
        std::filesystem::create_directory(path_ + "/dir");
        std::ofstream(path_ + "/file") << "x";
        std::filesystem::create_symlink("/etc", path_ + "/link");
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

SandboxSpec with_mount(std::string source, std::string target)
{
    SandboxSpec spec;
    spec.mounts.push_back({.source = std::move(source), .target = std::move(target)});
    return spec;
}

void expect_refused(const SandboxSpec& spec, const std::string& words, Code code = Code::Invalid)
{
    const auto checked = validate(spec);
    ASSERT_FALSE(checked) << words;
    EXPECT_EQ(checked.error().code, code);
    EXPECT_THAT(checked.error().message, HasSubstr(words));
}

TEST(SandboxSpec, TheDefaultIsGood) { EXPECT_TRUE(validate(SandboxSpec{})); }

TEST(SandboxSpec, TakesDirectoriesAndFilesAsMounts)
{
    const Place place;
    EXPECT_TRUE(validate(with_mount(place / "dir", "/data")));
    EXPECT_TRUE(validate(with_mount(place / "file", "/data")));
}

TEST(SandboxSpec, RefusesAMountOverTheRootOrWhatBerthMakes)
{
    const Place place;
    expect_refused(with_mount(place / "dir", "/"), "over /");
    for (const char* target : {"/proc", "/proc/sys", "/sys", "/dev", "/dev/shm", "/.berth", "/.berth/keeper",
                               "/.berth-0123456789ab"})
        expect_refused(with_mount(place / "dir", target), target);
    for (const char* target : {"/devices", "/.berthed"})
        EXPECT_TRUE(validate(with_mount(place / "dir", target))) << target;
    for (const char* target : {"/mnt/../proc", "/data/", "/data/.", "//data", "data"})
        EXPECT_EQ(validate(with_mount(place / "dir", target)).error().code, Code::Invalid) << target;
}

TEST(SandboxSpec, RefusesTwoMountsOnOneTarget)
{
    const Place place;
    SandboxSpec spec = with_mount(place / "dir", "/data");
    spec.mounts.push_back(spec.mounts.front());
    expect_refused(spec, "two mounts on /data");
}

TEST(SandboxSpec, NamesASourceThatIsNotThere)
{
    const Place place;
    expect_refused(with_mount(place / "none", "/data"), place / "none", Code::NotFound);
}

TEST(SandboxSpec, RefusesASourceThatIsASymlinkOrADevice)
{
    const Place place;
    expect_refused(with_mount(place / "link", "/data"), "symbolic link");
    expect_refused(with_mount("/dev/null", "/data"), "neither a directory nor a file");
    expect_refused(with_mount("/", "/data"), "the host's /");
}

TEST(SandboxSpec, RefusesABadHostName)
{
    SandboxSpec spec;
    for (const std::string& name : {std::string("a b"), std::string("a/b"), std::string(64, 'a')}) {
        spec.hostname = name;
        expect_refused(spec, "bad host name");
        spec.hostname.clear();
        spec.name = name;
        expect_refused(spec, "bad name");
        spec.name.clear();
    }
}

TEST(SandboxSpec, CallsItselfAsWasAskedElseByItsName)
{
    SandboxSpec spec;
    EXPECT_EQ(host_name(spec), "sandbox");
    spec.id = "sbx_01m7heejtzecfv4rvjbc9fkdh9";
    spec.labels[std::string(kForkLabel)] = "sbx_other";
    EXPECT_EQ(host_name(spec), "fork-bc9fkdh9");
    spec.name = "box";
    EXPECT_EQ(host_name(spec), "box");
    spec.hostname = "host";
    EXPECT_EQ(host_name(spec), "host");
}

TEST(SandboxSpec, RefusesAWorkingDirectoryWithDots)
{
    SandboxSpec spec;
    spec.workdir = "/home/../etc";
    EXPECT_FALSE(validate(spec));
}

TEST(SandboxSpec, RefusesAnEnvironmentOverTheLimit)
{
    SandboxSpec spec;
    spec.env["BIG"] = std::string(32 * 4096, 'x');
    expect_refused(spec, "environment variable BIG");
    spec.env.clear();
    for (int i = 0; i < 11; ++i) spec.env["N" + std::to_string(i)] = std::string(100'000, 'x');
    expect_refused(spec, "the environment is");
}

TEST(ParseMount, ReadsSourceTargetAndMode)
{
    const auto mount = parse_mount("src:/data:rw", "/here");
    ASSERT_TRUE(mount) << mount.error().line();
    EXPECT_EQ(*mount, (Mount{.source = "/here/src", .target = "/data", .mode = Mount::Mode::ReadWrite}));
    EXPECT_EQ(parse_mount("/a:/b", "/here")->mode, Mount::Mode::ReadOnly);
    EXPECT_EQ(parse_mount("/a:/b:copy", "/here")->mode, Mount::Mode::Copy);
}

TEST(ParseMount, RefusesWhatHasNoTwoPaths)
{
    for (const char* text : {"", "/a", ":/b", "/a:", "/a:b", "/a:/b:/c", "/a:/b:rx"})
        EXPECT_FALSE(parse_mount(text, "/here")) << text;
}

TEST(ParseWorkspace, ShowsADirectoryAtItsOwnPathWritable)
{
    const auto mount = parse_workspace(".", "/here/project");
    ASSERT_TRUE(mount) << mount.error().line();
    EXPECT_EQ(mount->source, "/here/project");
    EXPECT_EQ(mount->target, "/here/project");
    EXPECT_EQ(mount->mode, Mount::Mode::ReadWrite);
    EXPECT_TRUE(mount->workspace);
    EXPECT_EQ(parse_workspace("x:ro", "/here")->mode, Mount::Mode::ReadOnly);
}

TEST(ParseTemplate, TellsTheKindFromThePath)
{
    const Place place;
    EXPECT_EQ(parse_template("host")->kind, Template::Kind::Host);
    EXPECT_EQ(parse_template("live")->kind, Template::Kind::Live);
    EXPECT_EQ(parse_template(place / "dir")->kind, Template::Kind::Directory);
    EXPECT_EQ(parse_template(place / "file")->kind, Template::Kind::Tar);
    EXPECT_EQ(parse_template("tar:" + (place / "file"))->kind, Template::Kind::Tar);
    EXPECT_EQ(to_string(*parse_template("dir:" + (place / "dir"))), "dir:" + (place / "dir"));
}

TEST(ParseTemplate, RefusesWhatIsNoRoot)
{
    const Place place;
    EXPECT_EQ(parse_template("hots").error().code, Code::NotFound);
    EXPECT_FALSE(parse_template("dir:" + (place / "file")));
    EXPECT_FALSE(parse_template("tar:" + (place / "dir")));
    EXPECT_FALSE(parse_template("dir:"));
    EXPECT_FALSE(parse_template("/dev/null"));
}

TEST(SandboxSpec, AnImageIsAPathAndATag)
{
    const Place place;
    std::filesystem::create_directory(place / "a:b");
    const auto tag_of = [&](const std::string& text) {
        const auto found = parse_template(text);
        EXPECT_TRUE(found) << text << ": " << found.error().line();
        EXPECT_EQ(found ? found->kind : Template::Kind::Host, Template::Kind::Oci);
        return found ? found->path.substr(found->path.rfind('/') + 1) + " " + found->tag : "";
    };
    EXPECT_EQ(tag_of("oci:" + (place / "dir")), "dir ");
    EXPECT_EQ(tag_of("oci:" + (place / "dir") + ":1.0"), "dir 1.0");
    EXPECT_EQ(tag_of("docker-archive:" + (place / "file") + ":docker.io/x/y:1.0"), "file docker.io/x/y:1.0");
    EXPECT_EQ(tag_of("oci-archive:" + (place / "a:b") + ":c"), "a:b c");
    EXPECT_EQ(parse_template("oci:" + (place / "none:1")).error().code, Code::NotFound);
    EXPECT_FALSE(parse_template("oci:"));
    EXPECT_FALSE(parse_template("oci::x"));
    std::ofstream(place / "dir/oci-layout") << "{}";
    EXPECT_EQ(parse_template(place / "dir")->kind, Template::Kind::Oci);
    EXPECT_EQ(parse_template("dir:" + (place / "dir"))->kind, Template::Kind::Directory);
    EXPECT_EQ(to_string(Template{.kind = Template::Kind::Oci, .path = "/a", .tag = "b"}), "oci:/a:b");
}

} // namespace
} // namespace berth
