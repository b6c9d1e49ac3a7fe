// What the engine says and is told, as text: no engine is needed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/docker/changes.hpp"
#include "backend/docker/container.hpp"
#include "backend/docker/engine.hpp"
#include "backend/docker/engine_place.hpp"
#include "backend/docker/frozen_root.hpp"
#include "backend/docker/holdings.hpp"
#include "backend/docker/images.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/stats.hpp"

namespace berth::docker {
namespace {

using testing::HasSubstr;

TEST(EnginePlace, IsReadAsTheClientOfDockerWritesIt)
{
    EXPECT_EQ(parse_engine("unix:///run/user/1000/docker.sock")->socket, "/run/user/1000/docker.sock");
    EXPECT_EQ(parse_engine("tcp://host.example:2376")->port, 2376);
    EXPECT_EQ(parse_engine("tcp://host.example")->port, 2375);
    EXPECT_EQ(parse_engine("tcp://[::1]:99")->host, "::1");
    for (const char* bad :
         {"", "unix://", "unix://relative", "ssh://host", "tcp://", "tcp://host:0", "tcp://host:x"})
        EXPECT_FALSE(parse_engine(bad)) << bad;
}

TEST(EnginePlace, ComesFromTheEnvironmentOrIsTheUsualOne)
{
    EXPECT_EQ(find_engine({{"HOME", "/nowhere"}})->socket, "/var/run/docker.sock");
    const auto tls = find_engine(
        {{"DOCKER_HOST", "tcp://10.0.0.1:2376"}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", "/certs"}});
    EXPECT_TRUE(tls->tls && tls->verify);
    EXPECT_EQ(tls->certificates, "/certs");
    EXPECT_EQ(find_engine({{"HOME", "/nowhere"}, {"DOCKER_CONTEXT", "none"}}).error().code, Code::NotFound);
}

TEST(Version, IsOneThatBothSidesSpeak)
{
    EXPECT_EQ(*agree_on_version("1.12", "1.41"), "/v1.41");
    EXPECT_EQ(*agree_on_version("1.24", "1.99"), "/v1.47");
    EXPECT_EQ(agree_on_version("1.12", "1.20").error().code, Code::Unsupported);
    EXPECT_EQ(agree_on_version("1.60", "1.70").error().code, Code::Unsupported);
    EXPECT_EQ(agree_on_version("", "nonsense").error().code, Code::Unavailable);
}

TEST(Refusal, HasTheEnginesWordsAndOurCode)
{
    EXPECT_EQ(refusal(404, R"({"message":"No such container: x"})").code, Code::NotFound);
    EXPECT_THAT(refusal(409, R"({"message":"in use"})").message, HasSubstr("in use"));
    EXPECT_EQ(refusal(500, R"({"message":"write: no space left on device"})").code, Code::Exhausted);
    EXPECT_LT(refusal(500, std::string(100'000, 'x')).message.size(), 1000u);
    EXPECT_EQ(refusal(500, "\x1b[31mred").message.find('\x1b'), std::string::npos);
}

SandboxSpec spec()
{
    SandboxSpec out;
    out.id = "sbx_06f9vmey2dxqjmwk3s2h8tb1gc";
    out.root = {.kind = Template::Kind::Image, .path = "ubuntu:24.04", .tag = {}};
    out.workdir = "/";
    return out;
}

TEST(Labels, AreFoundAgainWhateverTheyHold)
{
    InstanceLabels labels{.key = "conversation:a,b=\"c\":grüße 日本",
                          .spec_hash = "v1-00",
                          .exo_hash = {},
                          .owner = "host, boot",
                          .created = WallTime(std::chrono::nanoseconds(123456789)),
                          .generation = 3};
    const auto found = identity_of(labels_of(spec(), labels, "ubuntu:24.04"));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->first.native, spec().id + ".3");
    labels.exo_hash = found->second.exo_hash;
    EXPECT_EQ(found->second, labels);
}

TEST(Labels, HaveTheHashByWhichExoLooks)
{
    // The first vector of the specification: an image, no mounts, no network, "/".
    const auto labels = labels_of(spec(), {.key = "conversation:c:s"}, "ubuntu:24.04");
    EXPECT_EQ(labels.at(label::kExoHash), "8b720987830e622f");
    EXPECT_EQ(labels.at(label::kExoKey), "conversation:c:s");
}

TEST(Labels, OfSomebodyElseAreNobody)
{
    EXPECT_FALSE(identity_of({}));
    EXPECT_FALSE(identity_of({{label::kId, "../etc"}}));
    EXPECT_FALSE(identity_of({{label::kExoKey, "conversation:c:s"}}));
}

TEST(Document, HoldsNoVariableOfTheSandbox)
{
    auto secret = spec();
    secret.env["TOKEN"] = "s3cr3t";
    const InstanceLabels labels;
    const auto text = json::dump(container_document({.spec = secret,
                                                     .labels = labels,
                                                     .image = "sha256:1",
                                                     .image_name = "i",
                                                     .shown = "/x",
                                                     .owner = 0}));
    EXPECT_EQ(text.find("s3cr3t"), std::string::npos);
    EXPECT_THAT(text, HasSubstr(R"("NetworkMode":"none")"));
    EXPECT_THAT(text, HasSubstr("no-new-privileges"));
}

TEST(FrozenRoot, IsAskedOfTheEngineWhereNothingOfTheRootIsWritten)
{
    auto wish = spec();
    EXPECT_FALSE(frozen_root(wish).frozen) << "no rules";
    wish.policy = *policy::preset("read-only");
    EXPECT_TRUE(frozen_root(wish).frozen);
    EXPECT_TRUE(frozen_root(wish).scratch.empty());
    wish.policy = *policy::preset("workspace-write");
    wish.mounts.push_back(
        {.source = "/w", .target = "/w", .mode = Mount::Mode::ReadWrite, .workspace = true});
    EXPECT_TRUE(frozen_root(wish).frozen);
    EXPECT_EQ(frozen_root(wish).scratch, (std::vector<std::string>{"/tmp", "/var/tmp"}));
    wish.policy.files.push_back({.access = policy::Access::Write, .target = policy::Path{"/opt"}});
    EXPECT_FALSE(frozen_root(wish).frozen);
    wish.policy.files.back() = {.access = policy::Access::Write,
                                .target = policy::Symbolic{.symbol = policy::Symbol::Home}};
    EXPECT_FALSE(frozen_root(wish).frozen);
}

TEST(Stats, AreReadFromBothKindsOfGroupsAndMayBeMissing)
{
    const auto v1 = parse_stats(*json::parse(
        R"({"cpu_stats":{"cpu_usage":{"total_usage":5000000}},"memory_stats":{"usage":1000,"stats":{"total_inactive_file":400}}})"));
    EXPECT_EQ(v1.cpu, std::chrono::microseconds(5000));
    EXPECT_EQ(v1.memory->count, 600u);
    const auto v2 =
        parse_stats(*json::parse(R"({"memory_stats":{"usage":1000,"stats":{"inactive_file":4000}}})"));
    EXPECT_EQ(v2.memory->count, 0u);
    EXPECT_FALSE(v2.cpu);
    EXPECT_FALSE(parse_stats(*json::parse(R"({"memory_stats":{},"cpu_stats":7})")).memory);
}

TEST(EnginePlace, KnowsItsOwnLoopback)
{
    EXPECT_TRUE(parse_engine("tcp://127.0.0.1:1")->loopback());
    EXPECT_TRUE(parse_engine("tcp://localhost:1")->loopback());
    EXPECT_TRUE(parse_engine("tcp://[::1]:1")->loopback());
    EXPECT_FALSE(parse_engine("tcp://127.example.com:1")->loopback());
    EXPECT_FALSE(parse_engine("tcp://10.0.0.1:1")->loopback());
}

TEST(Holdings, RefuseByNameWhatTheEngineCannotHold)
{
    auto wish = spec();
    wish.policy.limits.memory = 64_MiB;
    wish.policy.limits.disk = 1_GiB;
    const auto refused = admit(wish, hold({.memory = false, .pids = true, .cpus = true}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("memory"));
    EXPECT_THAT(refused.error().message, HasSubstr("disk"));
}

TEST(Progress, IsReadInWhateverPiecesItComes)
{
    std::vector<std::string> told;
    const MakeProgress progress = [&](const std::string& what, std::uint64_t have, std::uint64_t of) {
        told.push_back(fmt::format("{} {}/{}", what, have, of));
    };
    PullReader reader(progress);
    for (const char byte :
         std::string("{\"status\":\"Downloading\",\"progressDetail\":{\"current\":5,\"total\":10}}\r\n"
                     "{\"stream\":\"Loaded image: a:b\\n\"}\r\n"))
        ASSERT_TRUE(reader.take(std::string(1, byte)));
    ASSERT_TRUE(reader.finish());
    EXPECT_EQ(told, std::vector<std::string>{"Downloading 5/10"});
    EXPECT_EQ(reader.said(), "Loaded image: a:b\n");
}

TEST(Progress, TellsTheErrorInIt)
{
    const MakeProgress nobody;
    PullReader reader(nobody);
    EXPECT_EQ(reader.take("{\"error\":\"manifest for x not found: manifest unknown\"}\n").error().code,
              Code::NotFound);
    PullReader other(nobody);
    EXPECT_FALSE(other.take("not a document\n"));
    PullReader endless(nobody);
    EXPECT_FALSE(endless.take(std::string(100'000, 'x')));
}

TEST(SavedImage, EndsWithZerosOrWithTheEnginesWords)
{
    EXPECT_TRUE(check_archive_end(std::string(kTarEnd, '\0')));
    const auto cut = check_archive_end(std::string(kTarEnd - 1, '\0') + "x");
    ASSERT_FALSE(cut);
    EXPECT_THAT(cut.error().line(), HasSubstr("it ended in the middle"));
    EXPECT_FALSE(check_archive_end(std::string(512, '\0'))) << "shorter than any archive";
    const auto said = check_archive_end(
        std::string(700, 'y') +
        "{\"errorDetail\":{\"message\":\"a\"},\"error\":\"write x: no space left on device\"}\r\n");
    ASSERT_FALSE(said);
    EXPECT_EQ(said.error().code, Code::Exhausted);
    EXPECT_THAT(said.error().line(), HasSubstr("no space left on device"));
}

TEST(EngineEvents, AreThoseOfContainersThatMatter)
{
    const auto read = [](std::string_view text) { return parse_event(*json::parse(text)); };
    const auto died =
        read(R"({"Type":"container","Action":"die","Actor":{"ID":"abc","Attributes":{}},"timeNano":17})");
    ASSERT_TRUE(died);
    EXPECT_EQ(died->container, "abc");
    EXPECT_EQ(died->nanos, 17);
    EXPECT_TRUE(died->matters);
    const auto other =
        read(R"({"Type":"container","Action":"exec_create: sh","Actor":{"ID":"abc"},"timeNano":18})");
    ASSERT_TRUE(other);
    EXPECT_FALSE(other->matters);
    for (const char* none : {R"({"Type":"image","Action":"pull","Actor":{"ID":"a"},"timeNano":1})", "{}",
                             "[]", R"({"Type":"container","Action":"die","Actor":7,"timeNano":1})",
                             R"({"Type":"container","Action":"die","Actor":{"ID":"a"},"timeNano":"x"})"})
        EXPECT_FALSE(read(none)) << none;
}

} // namespace
} // namespace berth::docker
