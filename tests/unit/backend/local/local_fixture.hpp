#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/local/instance.hpp"
#include "backend/local/local_backend.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "support/run_task.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

/// One state directory for all tests of a suite, so that the template is made once; gone afterwards. Each
/// LocalBackend on it knows as little of the others as if it were in another process.
class LocalFixture : public ::testing::Test {
protected:
    using Ms = std::chrono::milliseconds;

    static void SetUpTestSuite()
    {
        char path[] = "/tmp/berth-local-XXXXXX";
        ASSERT_NE(::mkdtemp(&path[0]), nullptr);
        dir_ = &path[0];
        pool_.emplace(2);
        backend_ = open_backend();
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
    void TearDown() override
    {
        const auto all = run_task(backend_->scan());
        ASSERT_TRUE(all) << all.error().line();
        for (const auto& found : *all) {
            const auto gone = run_task(backend_->destroy(found.sandbox));
            EXPECT_TRUE(gone) << gone.error().line();
        }
        EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/sandbox"));
        EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/state/trash"));
    }

    static std::unique_ptr<Backend> open_backend()
    {
        auto opened = LocalBackend::open({.state_path = dir_ + "/state", .pool = &*pool_});
        EXPECT_TRUE(opened) << opened.error().line();
        return opened ? *std::move(opened) : nullptr;
    }

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
    static SandboxHandle make(const CreateRequest& request = spec())
    {
        auto made = run_task(backend_->create(request));
        EXPECT_TRUE(made) << made.error().line();
        return made.value_or(SandboxHandle{});
    }

    /// What the script prints; an exit other than 0 is a failure of the test.
    static std::string run(Backend& backend, const SandboxHandle& sandbox, const std::string& script)
    {
        const ExecSpec exec = shell(script);
        std::string out;
        if (auto started = run_task(backend.exec(sandbox, exec)); !started) {
            ADD_FAILURE() << script << ": " << started.error().line();
            return out;
        }
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
        const auto outcome = run_task(backend.follow(sandbox, exec, streams));
        EXPECT_TRUE(outcome) << script << ": " << outcome.error().line();
        if (outcome) EXPECT_EQ(outcome->status.shell_code(), 0) << script << ": " << out;
        return out;
    }
    static std::string run(const SandboxHandle& sandbox, const std::string& script)
    {
        return run(*backend_, sandbox, script);
    }

    /// All there is of an exec's log, read from the beginning.
    static std::string read_log(Backend& backend, const SandboxHandle& sandbox, const std::string& exec,
                                std::vector<ExecEvent::Kind>* kinds = nullptr)
    {
        std::string out;
        const auto until = system_clock().steady() + std::chrono::seconds(20);
        for (std::uint64_t from = 0; system_clock().steady() < until;) {
            const auto events = run_task(backend.read_events(sandbox, exec, from, until));
            EXPECT_TRUE(events) << events.error().line();
            if (!events || events->empty()) break;
            for (const auto& event : *events) {
                out += event.bytes;
                if (kinds != nullptr) kinds->push_back(event.kind);
            }
            from = events->back().sequence + 1;
            if (events->back().kind == ExecEvent::Kind::Closed) break;
        }
        return out;
    }

    static std::string directory_of(const SandboxHandle& sandbox)
    {
        return dir_ + "/state/sandbox/" + sandbox.native;
    }
    static Instance record_of(const SandboxHandle& sandbox)
    {
        const UniqueFd directory(::open(directory_of(sandbox).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        auto instance = read_instance(directory.get());
        EXPECT_TRUE(instance) << instance.error().line();
        return instance.value_or(Instance{});
    }
    static void kill_keeper(const SandboxHandle& sandbox)
    {
        const pid_t pid = record_of(sandbox).keeper.pid;
        ASSERT_GT(pid, 0);
        ::kill(pid, SIGKILL);
    }

    /// Runs `work` in a process that is to be killed at a label; false when it got to the end.
    static bool killed_at(const std::string& label, const std::function<void()>& work)
    {
        const pid_t child = ::fork();
        if (child == 0) {
            ::setenv("BERTH_TEST_KILL", label.c_str(), 1);
            work();
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }

    static inline std::string dir_;
    static inline std::optional<BlockingPool> pool_;
    static inline std::unique_ptr<Backend> backend_;
};

} // namespace berth::local
