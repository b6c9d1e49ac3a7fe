#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "berth/berth.hpp"
#include "support/docker_engine.hpp"

namespace berth {

using namespace std::chrono_literals;

/// One for the whole program.
inline const test::DockerEngine& engine()
{
    static const test::DockerEngine one;
    return one;
}

/// What a command of this machine prints.
inline std::string command(const std::string& text)
{
    std::string out;
    FILE* pipe = ::popen((text + " 2>&1").c_str(), "r");
    char piece[4096];
    for (std::size_t n; (n = ::fread(&piece[0], 1, sizeof piece, pipe)) > 0;) out.append(&piece[0], n);
    const int status = ::pclose(pipe);
    EXPECT_EQ(status, 0) << text << ": " << out;
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

class Docker : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (!engine().ready()) GTEST_SKIP() << engine().reason();
        char path[] = "/tmp/berth-dockertest-XXXXXX";
        data_ = ::mkdtemp(&path[0]);
        berth_ = open();
    }
    void TearDown() override
    {
        if (data_.empty()) return;
        const auto all = berth_->store().list({.with_dead = true});
        for (const auto& record : *all) (void)berth_->run(berth_->lifecycle().destroy(record.id()));
        // Images of its snapshots would be counted by the next one.
        (void)berth_->run(berth_->lifecycle().collect({.grace = std::chrono::seconds(0), .keep_last = 0}));
        berth_.reset();
        std::error_code ignored;
        std::filesystem::remove_all(data_, ignored);
    }
    std::unique_ptr<Berth> open()
    {
        auto opened = Berth::open({.data = data_, .threads = 4});
        EXPECT_TRUE(opened) << opened.error().line();
        return opened ? *std::move(opened) : nullptr;
    }
    static AcquireRequest wish(const std::string& key)
    {
        AcquireRequest out;
        out.key = key;
        out.backend = "docker";
        out.spec.policy = *policy::preset("sandbox");
        out.spec.root = {.kind = Template::Kind::Tar, .path = engine().root_tar(), .tag = {}};
        return out;
    }
    Result<Acquired> acquire(AcquireRequest request)
    {
        return berth_->run(berth_->lifecycle().acquire(std::move(request)));
    }
    std::string made(const std::string& key = "demo")
    {
        const auto acquired = acquire(wish(key));
        EXPECT_TRUE(acquired) << acquired.error().line();
        return acquired ? acquired->record.native : std::string{};
    }
    std::string shell(const std::string& ref, const std::string& script, const std::string& user = {})
    {
        ExecSpec exec;
        exec.argv = {"sh", "-c", script};
        exec.user = user;
        exec.timeout = 120s; // of a machine that does much else
        std::string output;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        const auto outcome = berth_->run(berth_->exec(ref, std::move(exec), std::move(streams)));
        EXPECT_TRUE(outcome) << outcome.error().line();
        if (outcome) EXPECT_TRUE(outcome->status.success()) << to_string(outcome->status) << ": " << output;
        return output;
    }
    static std::string ours() { return command("docker ps -aq --no-trunc --filter label=berth.sandbox.id"); }

    std::string data_;
    std::unique_ptr<Berth> berth_;
};

} // namespace berth
