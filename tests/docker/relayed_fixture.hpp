#pragma once

#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docker/docker_fixture.hpp"
#include "support/cut_relay.hpp"

namespace berth {

/// Of snapshots, which the engine has: other tests leave some for a collection.
inline std::string snapshot_images()
{
    return command("docker images -q --filter label=berth.snapshot | sort -u");
}

/// A berth whose engine can be taken away: what is between them breaks, or the engine is killed.
template <class Base> class Relayed : public Base {
protected:
    void SetUp() override
    {
        Base::SetUp();
        if (this->IsSkipped()) return;
        host_ = std::getenv("DOCKER_HOST");
        const std::string to = host_.substr(host_.find("://") + 3);
        std::string at = this->data_ + "/relay";
        // An address of this machine in the network of the far one.
        if (test::DockerEngine::is_far()) at = to.substr(0, to.rfind('.')) + ".1:0";
        relay_ = std::make_unique<test::CutRelay>(at, to);
        reopen();
    }
    void TearDown() override
    {
        if (relay_) {
            relay_->allow(test::CutRelay::kAll);
            reopen();
        }
        Base::TearDown();
        if (!host_.empty()) ::setenv("DOCKER_HOST", host_.c_str(), 1);
    }
    /// As another process would, that knows nothing of the engine yet.
    void reopen()
    {
        ::setenv("DOCKER_HOST", relay_->host().c_str(), 1);
        this->berth_ = this->open();
        ASSERT_TRUE(this->berth_->backend("docker"));
        ::setenv("DOCKER_HOST", host_.c_str(), 1); // the client of docker does not go that way
    }
    void collect(std::optional<std::size_t> keep_last = {})
    {
        auto& lifecycle = this->berth_->lifecycle();
        const auto report = this->berth_->run(lifecycle.collect({.grace = 0s, .keep_last = keep_last}));
        ASSERT_TRUE(report) << report.error().line();
        for (const auto& action : report->actions) EXPECT_EQ(action.failed, "") << action.object;
    }
    static std::string count_ours()
    {
        return command("docker ps -aq --filter label=berth.sandbox.id | wc -l");
    }
    void expect_kept()
    {
        collect();
        EXPECT_EQ(this->shell("demo", "cat ~/note"), "kept\n");
        EXPECT_EQ(count_ours(), "1");
    }

    /// Prepares and does it again and again, and the engine is killed in the middle of the first request that
    /// changes something, of the second and so on. With another engine on the same data and another process
    /// of ours `whole` looks whether nothing is lost; once everything is destroyed nothing is left. `most`:
    /// for so many requests only.
    template <class Act>
    void kill_at_each(const std::function<void()>& prepare, const Act& act,
                      const std::function<void()>& whole, long most = 100)
    {
        using Moment = test::CutRelay::Moment;
        for (const auto moment : {Moment::Asked, Moment::Answered}) {
            for (long changes = 0; changes < most; ++changes) {
                prepare();
                if (this->HasFailure()) return;
                relay_->strike_at(changes, moment, [] { engine().kill(); });
                const auto done = act();
                const auto request = relay_->struck();
                relay_->strike_at(test::CutRelay::kAll, moment, {});
                const std::string where = fmt::format(
                    "killed at: {}, {}", request, moment == Moment::Asked ? "on its way" : "as it answers");
                SCOPED_TRACE(where);
                if (request.empty()) {
                    EXPECT_TRUE(done) << done.error().line();
                    EXPECT_GT(changes, 0) << "it asks nothing of the engine";
                } else {
                    std::cout << where << (done ? ": done all the same" : ": " + done.error().line()) << "\n";
                    if (!done) EXPECT_EQ(done.error().code, Code::Unavailable) << done.error().line();
                    ASSERT_EQ(engine().start_again(), "");
                    reopen();
                    collect();
                    whole();
                }
                clear();
                if (this->HasFailure()) return;
                if (request.empty()) break;
            }
        }
    }
    /// Everything goes, and then nothing may be there.
    void clear()
    {
        const auto all = this->berth_->store().list({});
        for (const auto& record : *all) {
            const auto gone = this->berth_->run(this->berth_->lifecycle().destroy(record.id()));
            EXPECT_TRUE(gone) << gone.error().line();
        }
        collect(0);
        EXPECT_EQ(count_ours(), "0");
        EXPECT_EQ(snapshot_images(), "");
        EXPECT_EQ(command("docker images -aq berth-successor"), "");
        for (const char* part : {"docker", "sandbox", "snapshot", "trash"}) {
            std::error_code missing;
            for (const auto& one : std::filesystem::directory_iterator(this->data_ + "/" + part, missing)) {
                const auto name = one.path().filename().string();
                EXPECT_TRUE(name.starts_with(".") || name.ends_with("lock")) << part << "/" << name;
            }
        }
    }

    std::string host_;
    std::unique_ptr<test::CutRelay> relay_;
};

} // namespace berth
