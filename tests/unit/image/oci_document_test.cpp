#include "image/oci_document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/oci_choose.hpp"

namespace berth::image::oci {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDigits(64, 'a');

std::string descriptor(const std::string& type, const std::string& digest = "sha256:" + kDigits,
                       const std::string& more = {})
{
    return R"({"mediaType":")" + type + R"(","digest":")" + digest + R"(","size":3)" + more + "}";
}
std::string index_of(const std::string& descriptors)
{
    return R"({"schemaVersion":2,"manifests":[)" + descriptors + "]}";
}
const std::string kConfigType = "application/vnd.oci.image.config.v1+json";
const std::string kManifestType = "application/vnd.oci.image.manifest.v1+json";

TEST(OciDocument, DigestsAreDigitsAndNothingElse)
{
    EXPECT_EQ(*parse_digest("sha256:" + kDigits), kDigits);
    for (const std::string bad : {"sha256:../../x", "sha512:aa", "", "sha256:", "aaaa"})
        EXPECT_FALSE(parse_digest(bad)) << bad;
    EXPECT_FALSE(parse_digest("sha256:" + std::string(64, 'A')));
    EXPECT_FALSE(parse_digest("sha256:" + std::string(63, 'a') + "/"));
    EXPECT_FALSE(parse_digest("sha256:" + std::string(65, 'a')));
}

TEST(OciDocument, ReadsAnIndexWithPlatformsAndNames)
{
    const auto index = parse_index(index_of(descriptor(
        kManifestType, "sha256:" + kDigits,
        R"(,"platform":{"os":"linux","architecture":"arm64","variant":"v8"},"annotations":{"org.opencontainers.image.ref.name":"1.0","io.containerd.image.name":"docker.io/library/x:1.0"},"unknown":[1])")));
    ASSERT_TRUE(index) << index.error().line();
    ASSERT_EQ(index->size(), 1u);
    EXPECT_EQ(index->front().platform(), "linux/arm64/v8");
    EXPECT_THAT(index->front().names, ElementsAre("1.0", "docker.io/library/x:1.0"));
}

TEST(OciDocument, RefusesWithThePlace)
{
    const auto bad = parse_index(index_of(descriptor(kManifestType, "sha256:../../x")));
    ASSERT_FALSE(bad);
    EXPECT_THAT(bad.error().message, HasSubstr("/manifests/0/digest"));
    EXPECT_FALSE(parse_index("{}"));
    EXPECT_FALSE(parse_index("not json"));
    EXPECT_FALSE(parse_index(R"({"schemaVersion":1,"manifests":[]})"));
    EXPECT_FALSE(parse_index(R"({"schemaVersion":2,"manifests":[],"manifests":[]})"));
    EXPECT_FALSE(parse_config("[]"));
    EXPECT_FALSE(parse_config(std::string(kLargestDocument.count + 1, ' ')));
    EXPECT_FALSE(check_layout(R"({"imageLayoutVersion":"2.0.0"})"));
    EXPECT_TRUE(check_layout(R"({"imageLayoutVersion":"1.0.0"})"));
}

TEST(OciDocument, RefusesTooManyLayersAndTypesItCannotRead)
{
    const std::string layer = descriptor("application/vnd.oci.image.layer.v1.tar+gzip");
    const auto manifest = [&](const std::string& layers) {
        return R"({"schemaVersion":2,"config":)" + descriptor(kConfigType) + R"(,"layers":[)" + layers + "]}";
    };
    EXPECT_TRUE(parse_manifest(manifest(layer)));
    std::string many = layer;
    for (int i = 0; i < 9999; ++i) many += "," + layer;
    const auto refused = parse_manifest(manifest(many));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("10000 entries; 128 at most"));
    const auto foreign =
        parse_manifest(manifest(descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip")));
    ASSERT_FALSE(foreign);
    EXPECT_THAT(foreign.error().message, HasSubstr("/layers/0: layers of type"));
    EXPECT_FALSE(
        parse_manifest(R"({"schemaVersion":2,"config":)" + descriptor("application/x") + R"(,"layers":[]})"));
}

TEST(OciDocument, ReadsWhatAnImageAsksFor)
{
    const auto config = parse_config(R"({"os":"linux","architecture":"amd64","rootfs":{"type":"layers",
        "diff_ids":["sha256:)" + kDigits +
                                     R"("]},"config":{"Env":["PATH=/bin","EMPTY=","HOSTS","A=b=c"],
        "WorkingDir":"srv//app/","User":"node:staff","Cmd":["x"]}})");
    ASSERT_TRUE(config) << config.error().line();
    EXPECT_THAT(config->diff_ids, ElementsAre(kDigits));
    EXPECT_EQ(config->defaults.env,
              (std::map<std::string, std::string>{{"PATH", "/bin"}, {"EMPTY", ""}, {"A", "b=c"}}));
    EXPECT_EQ(config->defaults.workdir, "/srv/app");
    EXPECT_EQ(config->defaults.user, "node:staff");
    const std::string begin = R"({"rootfs":{"diff_ids":[]},"config":{)";
    EXPECT_TRUE(parse_config(begin + R"("Env":null}})"));
    for (const char* bad : {R"("Env":["=x"]}})", R"("Env":["A=\u0000"]}})", R"("Env":"A"}})",
                            R"("WorkingDir":"/a/../../b"}})", R"("User":"a\u0000"}})"})
        EXPECT_FALSE(parse_config(begin + bad)) << bad;
}

TEST(OciDocument, ReadsTheListOfAnArchive)
{
    const auto images = parse_archive_manifest(
        R"([{"Config":"a.json","RepoTags":["x:1"],"Layers":["b/layer.tar"]},{"Config":"c","RepoTags":null,"Layers":[]}])");
    ASSERT_TRUE(images) << images.error().line();
    EXPECT_EQ(images->size(), 2u);
    EXPECT_THAT(images->front().layers, ElementsAre("b/layer.tar"));
    EXPECT_FALSE(parse_archive_manifest(R"([{"RepoTags":[],"Layers":[]}])"));
    EXPECT_FALSE(parse_archive_manifest("{}"));
}

Descriptor one(const std::string& architecture, const std::string& name, const std::string& variant = {},
               char digit = 'a')
{
    return {.kind = Descriptor::Kind::Manifest,
            .sha256 = std::string(64, digit),
            .os = "linux",
            .architecture = architecture,
            .variant = variant,
            .names = name.empty() ? std::vector<std::string>{} : std::vector<std::string>{name}};
}

TEST(OciChoose, TakesTheOneOfThisMachine)
{
    const std::vector<Descriptor> index{one("arm64", "", "v8", 'a'), one("amd64", "", "v3", 'b'),
                                        one("amd64", "", "", 'c')};
    EXPECT_EQ(choose(index, "", "amd64")->sha256, std::string(64, 'c'));
    EXPECT_EQ(choose(index, "", "arm64")->sha256, std::string(64, 'a'));
    const auto none = choose(index, "", "s390x");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::Unsupported);
    EXPECT_THAT(none.error().message, HasSubstr("linux/amd64, linux/amd64/v3, linux/arm64/v8"));
}

TEST(OciChoose, TakesTheOneOfThatName)
{
    const std::vector<Descriptor> index{one("amd64", "docker.io/library/x:1.0", "", 'a'),
                                        one("amd64", "docker.io/library/x:2.0", "", 'b')};
    EXPECT_EQ(choose(index, "2.0", "amd64")->sha256, std::string(64, 'b'));
    EXPECT_EQ(choose(index, "x:1.0", "amd64")->sha256, std::string(64, 'a'));
    const auto several = choose(index, "", "amd64");
    ASSERT_FALSE(several);
    EXPECT_THAT(several.error().message, HasSubstr("name one of docker.io/library/x:1.0, docker.io"));
    const auto none = choose(index, "3.0", "amd64");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Code::NotFound);
    EXPECT_THAT(none.error().message, HasSubstr("there is: docker.io/library/x:1.0"));
}

TEST(OciChoose, PassesOverWhatIsNoImage)
{
    auto told = one("unknown", "", "", 'b');
    told.os = "unknown";
    told.attestation = true;
    EXPECT_EQ(choose({told, one("amd64", "")}, "", "amd64")->sha256, std::string(64, 'a'));
    EXPECT_FALSE(choose(std::vector<Descriptor>{told}, "", "amd64"));
    EXPECT_FALSE(check_platform("windows", "amd64", "amd64"));
    EXPECT_TRUE(check_platform("", "", "amd64"));
}

} // namespace
} // namespace berth::image::oci
