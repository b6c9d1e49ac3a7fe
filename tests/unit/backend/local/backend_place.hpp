#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "backend/local/local_backend.hpp"
#include "base/ids.hpp"
#include "support/run_task.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

/// A local backend on a state directory of its own for all tests of a suite, so that the template is made
/// once; gone afterwards.
class BackendPlace : public ::testing::Test {
protected:
    static void SetUpTestSuite()
    {
        char path[] = "/tmp/berth-place-XXXXXX";
        ASSERT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        pool_.emplace(3);
        auto opened = LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
        ASSERT_TRUE(opened) << opened.error().line();
        backend_ = *std::move(opened);
    }
    static void TearDownTestSuite()
    {
        backend_.reset();
        pool_.reset();
        const std::filesystem::path path = dir_;
        const UniqueFd parent(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        const auto removed = sys::remove_tree(parent.get(), path.filename());
        EXPECT_TRUE(removed) << removed.error().line();
    }

    static SteadyTime in(std::chrono::nanoseconds time) { return system_clock().steady() + time; }

    static SandboxSpec spec()
    {
        SandboxSpec out;
        out.id = make_sandbox_id(system_clock());
        out.policy = *policy::preset("sandbox");
        out.policy.limits = {}; // limits have tests of their own
        return out;
    }
    static ExecSpec shell(const std::string& script)
    {
        ExecSpec out;
        out.id = make_exec_id(system_clock());
        out.argv = {"/bin/sh", "-c", script};
        return out;
    }

    /// A sandbox that is gone with the test.
    struct Made {
        SandboxHandle handle;
        Made(const Made&) = delete;
        Made& operator=(const Made&) = delete;
        Made()
        {
            auto made = run_task(backend_->create(spec()));
            EXPECT_TRUE(made) << made.error().line();
            if (made) handle = *made;
        }
        ~Made()
        {
            const auto gone = run_task(backend_->destroy(handle));
            EXPECT_TRUE(gone) << gone.error().line();
        }
    };

    struct Ran {
        std::string out; ///< both streams
        RunOutcome outcome;
    };
    /// A command from its start to its end.
    static Ran run(const SandboxHandle& sandbox, const ExecSpec& exec)
    {
        Ran ran;
        const auto started = run_task(backend_->exec(sandbox, exec));
        EXPECT_TRUE(started) << started.error().line();
        if (!started) return ran;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { ran.out += event.bytes; };
        auto outcome = run_task(backend_->follow(sandbox, exec, streams));
        EXPECT_TRUE(outcome) << outcome.error().line();
        if (outcome) ran.outcome = *std::move(outcome);
        return ran;
    }
    static std::string output_of(const SandboxHandle& sandbox, const std::string& script)
    {
        return run(sandbox, shell(script)).out;
    }

    static inline std::string dir_;
    static inline std::optional<BlockingPool> pool_;
    static inline std::unique_ptr<Backend> backend_;
};

} // namespace berth::local
