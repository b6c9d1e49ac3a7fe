#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace berth {

/// A backend without a world: says what it was told to, remembers what it was asked.
class FakeBackend : public Backend {
public:
    std::vector<std::string> asked;
    std::deque<std::vector<ExecEvent>> events; ///< one answer of read_events each
    std::vector<ExecEvent> after_kill;         ///< what comes once it was killed
    std::optional<Error> exec_fails;
    std::optional<Error> destroy_fails;
    std::vector<std::string> struck;
    std::size_t takes = ~std::size_t{0}; ///< bytes one write takes
    std::string input;

    [[nodiscard]] std::string_view name() const override { return "fake"; }
    [[nodiscard]] Capabilities capabilities() const override { return {}; }

    Task<Result<SandboxHandle>> create(CreateRequest request) override
    {
        asked.emplace_back("create");
        co_return SandboxHandle{.sandbox = request.spec.id, .native = "native"};
    }
    Task<Status> destroy(SandboxHandle) override
    {
        asked.emplace_back("destroy");
        if (destroy_fails) co_return std::unexpected(*destroy_fails);
        co_return Status{};
    }
    Task<Result<std::vector<Found>>> scan() override { co_return std::vector<Found>{}; }
    Task<Result<Found>> inspect(SandboxHandle sandbox) override
    {
        co_return Found{.sandbox = std::move(sandbox), .health = Health::Healthy, .state = State::Running};
    }
    Task<Result<std::vector<ExecInfo>>> execs(SandboxHandle) override { co_return std::vector<ExecInfo>{}; }
    Task<Status> settle_exec(SandboxHandle, std::string) override { co_return Status{}; }
    Task<Status> exec(SandboxHandle, ExecSpec) override
    {
        asked.emplace_back("exec");
        if (exec_fails) co_return std::unexpected(*exec_fails);
        co_return Status{};
    }
    Task<Result<std::vector<ExecEvent>>> read_events(SandboxHandle, std::string, std::uint64_t,
                                                     SteadyTime) override
    {
        if (events.empty()) co_return std::vector<ExecEvent>{};
        auto first = std::move(events.front());
        events.pop_front();
        co_return first;
    }
    Task<Result<std::optional<Ended>>> wait(SandboxHandle, std::string, SteadyTime) override
    {
        co_return Ended{.status = ExitStatus::unknown(), .struck = struck};
    }
    Task<Status> signal(SandboxHandle, std::string, int) override { co_return Status{}; }
    Task<Status> kill(SandboxHandle, std::string) override
    {
        asked.emplace_back("kill");
        if (!after_kill.empty()) events.push_back(after_kill);
        co_return Status{};
    }
    Task<Result<std::size_t>> write_input(SandboxHandle, std::string, std::uint64_t,
                                          std::string bytes) override
    {
        input += bytes.substr(0, takes);
        co_return std::min(takes, bytes.size());
    }
    Task<Status> close_input(SandboxHandle, std::string, std::uint64_t) override
    {
        asked.emplace_back("close input");
        co_return Status{};
    }
    Task<Status> resize(SandboxHandle, std::string, TerminalSize) override { co_return Status{}; }
    Task<Result<std::string>> read_file(SandboxHandle, FilePath, Bytes) override { co_return std::string{}; }
    Task<Status> write_file(SandboxHandle, FilePath, std::string, std::optional<unsigned>) override
    {
        co_return Status{};
    }
    Task<Result<std::vector<FileEntry>>> list_files(SandboxHandle, FilePath) override
    {
        co_return std::vector<FileEntry>{};
    }
    Task<Result<FileEntry>> stat_file(SandboxHandle, FilePath) override { co_return FileEntry{}; }
    Task<Status> make_dir(SandboxHandle, FilePath, MakeParents) override { co_return Status{}; }
    Task<Status> move_file(SandboxHandle, FilePath, std::string) override { co_return Status{}; }
    Task<Status> remove_file(SandboxHandle, FilePath, RemoveTree) override { co_return Status{}; }
};

} // namespace berth
