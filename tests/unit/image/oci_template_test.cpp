#include "image/oci_template.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/stack.hpp"
#include "unit/image/forked.hpp"
#include "unit/image/names_in.hpp"
#include "unit/image/oci_builder.hpp"

namespace berth::image {
namespace {

using sys::TempDir;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

std::string base()
{
    return RawTar().directory("etc", 0750).file("etc/a", "low").file("etc/b", "low").done();
}

std::string read(const OciTemplate& image, const std::string& path)
{
    auto text = Stack::open(image.roots)->read(path, 1_KiB);
    return text ? *text : text.error().line();
}
bool has(const OciTemplate& image, const std::string& path)
{
    return Stack::open(image.roots)->find(path, Stack::LastLink::Keep)->has_value();
}

/// Nothing in the cache but locks.
std::vector<std::string> made(const TempDir& dir)
{
    auto names = names_in(dir / "cache");
    std::erase_if(names, [](const std::string& name) { return name.ends_with(".lock"); });
    return names;
}

void expect_refused(const TempDir& dir, const std::string& path, const std::string& words,
                    const std::string& tag = {})
{
    const auto image = ensure_oci_template(dir / "cache", path, tag);
    ASSERT_FALSE(image) << words;
    EXPECT_THAT(image.error().line(), HasSubstr(words));
    EXPECT_NE(image.error().code, Code::Internal);
    EXPECT_THAT(made(dir), IsEmpty());
}

TEST(OciTemplate, StacksItsLayersTheTopmostFirst)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{base()}, {RawTar().file("etc/b", "top").file("etc/c", "top").done()}},
                {{"Env", json::Array{"A=1"}}, {"WorkingDir", "/srv"}, {"User", "1:2"}});
    const auto found = ensure_oci_template(dir / "cache", image.path(), "");
    ASSERT_TRUE(found) << found.error().line();
    ASSERT_THAT(found->roots, SizeIs(2));
    EXPECT_EQ(read(*found, "etc/a") + read(*found, "etc/b") + read(*found, "etc/c"), "lowtoptop");
    EXPECT_EQ(found->defaults.env.at("A"), "1");
    EXPECT_EQ(found->defaults.workdir, "/srv");
    EXPECT_EQ(found->defaults.user, "1:2");
    struct stat st{};
    ASSERT_EQ(::stat((found->roots[0] + "/etc").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0750u) << "a directory that is only implied looks as it did below";
}

TEST(OciTemplate, ReadsEveryCompression)
{
    const TempDir dir;
    const OciBuilder image(dir);
    const std::string type = "application/vnd.oci.image.layer.v1.tar";
    image.image({{RawTar().file("a", "1").done(), type + "+gzip", ::archive_write_add_filter_gzip},
                 {RawTar().file("b", "2").done(), type + "+zstd", ::archive_write_add_filter_zstd},
                 {RawTar().file("c", "3").done() + std::string(20480, '\0')},
                 {std::string(1024, '\0'), type + "+gzip", ::archive_write_add_filter_gzip}});
    const auto found = ensure_oci_template(dir / "cache", image.path(), "");
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_EQ(read(*found, "a") + read(*found, "b") + read(*found, "c"), "123");
}

TEST(OciTemplate, LayersAreSharedAndMadeOnce)
{
    const TempDir dir;
    const OciBuilder one(dir, "one");
    one.image({{base()}, {RawTar().file("x", "1").done()}});
    const OciBuilder two(dir, "two");
    two.image({{base()}, {RawTar().file("x", "2").done()}});
    const auto first = ensure_oci_template(dir / "cache", one.path(), "");
    const auto second = ensure_oci_template(dir / "cache", two.path(), "");
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->roots[1], second->roots[1]);
    EXPECT_NE(first->roots[0], second->roots[0]);
    std::vector<std::string> told;
    const auto again = ensure_oci_template(dir / "cache", one.path(), "",
                                           [&](std::string_view line) { told.emplace_back(line); });
    ASSERT_TRUE(again);
    EXPECT_EQ(again->roots, first->roots);
    EXPECT_THAT(told, IsEmpty());
}

TEST(OciTemplate, MarksHideWhatIsBelow)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{RawTar()
                      .file("etc/a", "low")
                      .file("etc/b", "low")
                      .file("var/x", "low")
                      .file("opt/y", "low")
                      .done()},
                 {RawTar()
                      .file("etc/.wh.a", "")
                      .file("etc/.wh.never", "")
                      .file("etc/.wh.b", "")
                      .file("etc/b", "kept")
                      .file("var/.wh..wh..opq", "")
                      .file("var/new", "new")
                      .file(".wh.opt", "")
                      .directory("opt")
                      .file(".wh..wh.plnk", "")
                      .done()}});
    const auto found = ensure_oci_template(dir / "cache", image.path(), "");
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_FALSE(has(*found, "etc/a"));
    EXPECT_EQ(read(*found, "etc/b"), "kept") << "a mark holds for the layers below only";
    EXPECT_FALSE(has(*found, "var/x"));
    EXPECT_EQ(read(*found, "var/new"), "new");
    EXPECT_TRUE(has(*found, "opt"));
    EXPECT_FALSE(has(*found, "opt/y"));
    EXPECT_THAT(names_in(found->roots[0] + "/etc"), testing::ElementsAre("a", "b"));
}

TEST(OciTemplate, AnOpaqueRootIsTheLowest)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{base()}, {RawTar().file(".wh..wh..opq", "").file("only", "1").done()}});
    const auto found = ensure_oci_template(dir / "cache", image.path(), "");
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_THAT(found->roots, SizeIs(1));
}

TEST(OciTemplate, AFileBelowALinkOfALowerLayerGoesWhereItLeads)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{RawTar().directory("usr").directory("usr/lib").symlink("lib", "usr/lib").done()},
                 {RawTar().file("lib/x.so", "x").done()}});
    const auto found = ensure_oci_template(dir / "cache", image.path(), "");
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_EQ(read(*found, "usr/lib/x.so"), "x");
    EXPECT_EQ(read(*found, "lib/x.so"), "x");
}

TEST(OciTemplate, TakesTheRightOneOfSeveral)
{
    const TempDir dir;
    const OciBuilder image(dir);
    const std::string other = oci::machine_architecture() == "amd64" ? "arm64" : "amd64";
    json::Array platforms;
    platforms.emplace_back(image.manifest({{RawTar().file("which", other).done()}}, {}, other));
    platforms.emplace_back(image.manifest({{RawTar().file("which", "ours").done()}}));
    const auto nested =
        image.descriptor("application/vnd.oci.image.index.v1+json", OciBuilder::index(std::move(platforms)));
    image.finish(
        {OciBuilder::tagged(nested, "multi"),
         OciBuilder::tagged(image.manifest({{RawTar().file("which", "single").done()}}), "single"),
         OciBuilder::tagged(image.manifest({{RawTar().file("which", other).done()}}, {}, other), "foreign")});
    const auto multi = ensure_oci_template(dir / "cache", image.path(), "multi");
    ASSERT_TRUE(multi) << multi.error().line();
    EXPECT_EQ(read(*multi, "which"), "ours");
    EXPECT_EQ(read(*ensure_oci_template(dir / "cache", image.path(), "single"), "which"), "single");
    const auto foreign = ensure_oci_template(dir / "cache", image.path(), "foreign");
    ASSERT_FALSE(foreign);
    EXPECT_THAT(foreign.error().message, HasSubstr("there is: linux/" + other));
    EXPECT_FALSE(ensure_oci_template(dir / "cache", image.path(), ""));
    EXPECT_FALSE(ensure_oci_template(dir / "cache", image.path(), "none"));
}

TEST(OciTemplate, RefusesWhatIsNotWhatItWasPromisedToBe)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{base()}});
    const std::string blob = "blobs/sha256/" + sha256_hex(base());
    image.write(blob, base().substr(0, 512));
    expect_refused(dir, image.path(), "512 bytes, not the");
    std::string other = base();
    other[600] ^= 1;
    image.write(blob, other);
    expect_refused(dir, image.path(), "does not have the digest in its name");
    ::unlink((image.path() + "/" + blob).c_str());
    expect_refused(dir, image.path(), "No such file");
    dir.link("/etc/passwd", "image/" + blob);
    expect_refused(dir, image.path(), blob);
    ::unlink((image.path() + "/" + blob).c_str());
    ASSERT_EQ(::mkfifo((image.path() + "/" + blob).c_str(), 0600), 0);
    expect_refused(dir, image.path(), "is not a file");
    ::unlink((image.path() + "/" + blob).c_str());
    image.write(blob, base());
    EXPECT_TRUE(ensure_oci_template(dir / "cache", image.path(), ""));
}

TEST(OciTemplate, RefusesContentThatTheConfigurationDoesNotName)
{
    const TempDir dir;
    const OciBuilder image(dir);
    json::Object document;
    document["schemaVersion"] = 2;
    document["config"] =
        image.descriptor("application/vnd.oci.image.config.v1+json",
                         R"({"rootfs":{"diff_ids":["sha256:)" + std::string(64, 'b') + R"("]}})");
    document["layers"] = json::Array{image.descriptor("application/vnd.oci.image.layer.v1.tar", base())};
    image.finish({image.descriptor("application/vnd.oci.image.manifest.v1+json", json::dump(document))});
    expect_refused(dir, image.path(), "not have the digest that the configuration names");
    document["layers"] = json::Array{};
    image.finish({image.descriptor("application/vnd.oci.image.manifest.v1+json", json::dump(document))});
    expect_refused(dir, image.path(), "0 layers, and 1 in the configuration");
    document["config"] = image.descriptor("application/vnd.oci.image.config.v1+json", "not json");
    image.finish({image.descriptor("application/vnd.oci.image.manifest.v1+json", json::dump(document))});
    expect_refused(dir, image.path(), "reading the configuration of an image");
    image.write("index.json", "");
    expect_refused(dir, image.path(), "reading image");
    ::unlink((image.path() + "/oci-layout").c_str());
    expect_refused(dir, image.path(), "neither oci-layout nor manifest.json");
}

TEST(OciTemplate, RefusesLayersThatReachOut)
{
    const std::pair<std::string, std::string> cases[] = {
        {RawTar().file("../x", "1").done(), "leads out"},
        {RawTar().file("../.wh.x", "").done(), "leads out"},
        {RawTar().file(".wh...", "").done(), "removes nothing"},
        {RawTar().file("a/.wh.", "").done(), "removes nothing"},
        {RawTar().file(".wh.a/b", "").done(), "below the mark"},
        {RawTar().symlink("a", "/").file("a/.wh.etc", "").done(), "is used as a directory"},
        {RawTar().symlink("a", "..").file("a/.wh..wh..opq", "").done(), "is used as a directory"},
        {RawTar().symlink("a", "/tmp").file("a/x", "1").done(), "is used as a directory"},
        {RawTar().device("null", '3', 0, 0).done(), "device node"},
    };
    const std::string lower = RawTar().file("a/etc/x", "1").done();
    for (const auto& [tar, words] : cases) {
        const TempDir dir;
        const OciBuilder image(dir);
        image.image({{lower}, {tar}});
        const auto found = ensure_oci_template(dir / "cache", image.path(), "");
        ASSERT_FALSE(found) << words;
        EXPECT_THAT(found.error().line(), HasSubstr(words));
        EXPECT_THAT(made(dir), testing::ElementsAre("layer-" + sha256_hex(lower)));
        EXPECT_THAT(names_in(dir.path()), testing::ElementsAre("cache", "image"));
    }
}

TEST(OciTemplate, ABadUpperLayerLeavesOnlyTheGoodLower)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{base()}, {"this is no archive" + std::string(600, 'x')}});
    EXPECT_FALSE(ensure_oci_template(dir / "cache", image.path(), ""));
    EXPECT_THAT(made(dir), testing::ElementsAre("layer-" + sha256_hex(base())));
}

/// The older form: no index, layers by path, one of them a link to another.
std::string docker_archive(const std::string& tag, const std::string& lie = {})
{
    const std::string config = R"({"os":"linux","rootfs":{"diff_ids":["sha256:)" + sha256_hex(base()) +
                               R"(","sha256:)" + sha256_hex(base()) + R"("]},"config":{"Env":["A=1"]}})";
    const std::string name = sha256_hex(config) + ".json";
    return RawTar()
        .file("aa/layer.tar", lie.empty() ? base() : lie)
        .symlink("bb/layer.tar", "../aa/layer.tar")
        .file(name, config)
        .file("manifest.json", R"([{"Config":")" + name + R"(","RepoTags":[")" + tag +
                                   R"("],"Layers":["aa/layer.tar","bb/layer.tar"]}])")
        .done();
}

TEST(OciTemplate, ReadsAnArchiveOfDockersAndRemembersIt)
{
    const TempDir dir;
    dir.write("a.tar", docker_archive("x:1"));
    const auto found = ensure_oci_template(dir / "cache", dir / "a.tar", "x:1");
    ASSERT_TRUE(found) << found.error().line();
    EXPECT_THAT(found->roots, SizeIs(2));
    EXPECT_EQ(read(*found, "etc/a"), "low");
    EXPECT_EQ(found->defaults.env.at("A"), "1");
    const auto before = made(dir);
    const auto again = ensure_oci_template(dir / "cache", dir / "a.tar", "x:1");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->roots, found->roots);
    EXPECT_EQ(again->defaults, found->defaults);
    EXPECT_EQ(made(dir), before);
    EXPECT_THAT(before, Contains(StartsWith("image-")));
    for (const auto& name : before)
        if (name.starts_with("image-")) {
            EXPECT_THAT(names_in(dir / ("cache/" + name)), testing::ElementsAre("ready"));
        }
}

TEST(OciTemplate, RefusesABadArchiveAndLeavesNothing)
{
    const TempDir dir;
    dir.write("lie.tar", docker_archive("x:1", RawTar().file("etc/evil", "1").done()));
    expect_refused(dir, dir / "lie.tar", "the digest that the configuration names");
    dir.write("a.tar", docker_archive("x:1"));
    expect_refused(dir, dir / "a.tar", "no image 'y'", "y");
    dir.write("short.tar", docker_archive("x:1").substr(0, 1000));
    expect_refused(dir, dir / "short.tar", "tar archive");
    dir.write("out.tar",
              RawTar().file("manifest.json", R"([{"Config":"../../../etc/passwd","Layers":[]}])").done());
    expect_refused(dir, dir / "out.tar", "leads out");
    dir.write("link.tar", RawTar()
                              .symlink("c.json", "/etc/passwd")
                              .file("manifest.json", R"([{"Config":"c.json","Layers":[]}])")
                              .done());
    expect_refused(dir, dir / "link.tar", "c.json");
}

TEST(OciTemplate, ALayoutInATarIsTheSameImage)
{
    const TempDir dir;
    const OciBuilder image(dir);
    image.image({{base()}});
    ASSERT_EQ(::system(("tar -C '" + image.path() + "' -czf '" + (dir / "a.tgz") + "' .").c_str()), 0);
    EXPECT_TRUE(is_image_archive(dir / "a.tgz"));
    const auto packed = ensure_oci_template(dir / "cache", dir / "a.tgz", "");
    ASSERT_TRUE(packed) << packed.error().line();
    EXPECT_EQ(packed->roots, ensure_oci_template(dir / "cache", image.path(), "")->roots);
    EXPECT_EQ(packed->identity, sha256_hex(base()));
}

TEST(OciTemplate, TellsAnImageFromARoot)
{
    const TempDir dir;
    dir.write("root.tar", RawTar().directory("./").directory("./bin").done());
    dir.write("old.tar", RawTar().directory(std::string(64, 'a') + "/").done());
    dir.write("junk", "junk");
    EXPECT_FALSE(is_image_archive(dir / "root.tar"));
    EXPECT_TRUE(is_image_archive(dir / "old.tar"));
    dir.write("skopeo.tar", RawTar().file(std::string(64, 'a') + ".tar", "x").done());
    EXPECT_TRUE(is_image_archive(dir / "skopeo.tar"));
    EXPECT_FALSE(is_image_archive(dir / "junk"));
    EXPECT_FALSE(is_image_archive(dir / "none"));
}

TEST(OciTemplate, AKilledMakerLeavesNothingInTheWay)
{
    for (const char* point : {"template:begun", "template:unpacked", "template:before-rename"}) {
        const TempDir dir;
        const OciBuilder image(dir);
        image.image({{base()}, {RawTar().file("x", "1").done()}});
        EXPECT_TRUE(killed_at(
            point, [&] { return ensure_oci_template(dir / "cache", image.path(), "").has_value(); }));
        const auto found = ensure_oci_template(dir / "cache", image.path(), "");
        ASSERT_TRUE(found) << point << found.error().line();
        EXPECT_EQ(read(*found, "x"), "1");
        EXPECT_THAT(made(dir), SizeIs(2)) << point;
    }
}

} // namespace
} // namespace berth::image
