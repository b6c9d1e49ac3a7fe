#include "core/spec_hash.hpp"

#include <gtest/gtest.h>

#include "core/spec_json.hpp"

namespace berth {
namespace {

SandboxSpec everything()
{
    SandboxSpec spec;
    spec.id = "sbx_01h455vb4pex5vsknk084sn02q";
    spec.name = "build";
    spec.root = {.kind = Template::Kind::Tar, .path = "/images/a.tar"};
    spec.policy = *policy::preset("workspace-write");
    spec.policy.limits.cpus = 1.5;
    spec.policy.limits.memory = 2_GiB;
    spec.limit_mode = LimitMode::BestEffort;
    spec.mounts = {{.source = "/src", .target = "/work", .mode = Mount::Mode::ReadWrite, .workspace = true},
                   {.source = "/data", .target = "/data", .mode = Mount::Mode::Copy}};
    spec.volumes = {{.name = "out", .target = "/out", .writable = false, .source = "/var/b"},
                    {.name = "cache", .target = "/cache", .source = "/var/a"}};
    spec.env = {{"A", "1"}, {"B", "two\nlines \xc3\xa9"}};
    spec.user = "root";
    spec.workdir = "/work";
    spec.hostname = "build";
    spec.labels = {{"team", "x"}};
    return spec;
}

TEST(SpecJson, ReadsBackWhatItWrote)
{
    for (const auto& spec : {everything(), SandboxSpec{.policy = *policy::preset("sandbox")}}) {
        const json::Value document = to_json(spec);
        const auto read = read_spec(json::Reader(document));
        ASSERT_TRUE(read) << read.error().line();
        EXPECT_EQ(*read, spec);
        for (std::size_t i = 0; i < spec.volumes.size(); ++i)
            EXPECT_EQ(read->volumes[i].source, spec.volumes[i].source);
    }
}

TEST(SpecJson, RefusesWhatItDoesNotKnowByPlace)
{
    json::Value document = to_json(everything());
    document.as_object()["mounts"].as_array()[1].as_object()["mode"] = "rx";
    const auto read = read_spec(json::Reader(document));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().message, "/mounts/1/mode: no mode 'rx'");
    document = to_json(everything());
    document.as_object()["colour"] = "red";
    EXPECT_FALSE(read_spec(json::Reader(document)));
}

TEST(SpecHash, HasItsFormAndStaysTheSame)
{
    const auto hash = spec_hash(everything());
    EXPECT_EQ(hash.size(), 35u);
    EXPECT_TRUE(hash.starts_with("v1-"));
    EXPECT_EQ(hash, spec_hash(everything()));
}

// The value before there were volumes: sandboxes that exist are found by it.
TEST(SpecHash, WithoutVolumesIsWhatItWas)
{
    auto spec = everything();
    spec.volumes.clear();
    EXPECT_EQ(spec_hash(spec), "v1-993f24e70248c2599d6645cbad02d39a");
}

TEST(SpecHash, DoesNotSeeNamesAndTheOrderOfMounts)
{
    auto other = everything();
    other.id = "sbx_01h455vb4pex5vsknk084sn02r";
    other.name = "another";
    other.labels = {};
    std::swap(other.mounts[0], other.mounts[1]);
    std::swap(other.volumes[0], other.volumes[1]);
    other.volumes[0].source = "/elsewhere";
    EXPECT_EQ(spec_hash(other), spec_hash(everything()));
}

TEST(SpecHash, SeesWhatChangesTheSandbox)
{
    const auto differs = [](auto change) {
        auto spec = everything();
        change(spec);
        return spec_hash(spec) != spec_hash(everything());
    };
    EXPECT_TRUE(differs([](auto& s) { s.root = {}; }));
    EXPECT_TRUE(differs([](auto& s) { s.policy.limits.cpus = 1.501; }));
    EXPECT_TRUE(differs([](auto& s) { s.policy.network = policy::Network::Host; }));
    EXPECT_TRUE(differs([](auto& s) { s.mounts[1].mode = Mount::Mode::ReadOnly; }));
    EXPECT_TRUE(differs([](auto& s) { s.volumes[0].name = "in"; }));
    EXPECT_TRUE(differs([](auto& s) { s.volumes[0].target = "/in"; }));
    EXPECT_TRUE(differs([](auto& s) { s.volumes[0].writable = true; }));
    EXPECT_TRUE(differs([](auto& s) { s.volumes.pop_back(); }));
    EXPECT_TRUE(differs([](auto& s) { s.env["A"] = "2"; }));
    EXPECT_TRUE(differs([](auto& s) { s.user = "user"; }));
    EXPECT_TRUE(differs([](auto& s) { s.limit_mode = LimitMode::Enforce; }));
}

} // namespace
} // namespace berth
