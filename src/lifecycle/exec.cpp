// Execs as the store knows them. Their output is the backend's; their end is committed when their log is
// on disk.

#include <algorithm>
#include <csignal>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "core/blocking_exec.hpp"
#include "lifecycle/deadline.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

namespace {

/// A command that ended by itself at the last moment did not time out.
std::string outcome_of(const ExitStatus& status, bool overdue)
{
    if (overdue && status.signal() == SIGKILL) return fmt::format("timed out, signal {}", SIGKILL);
    if (const auto signal = status.signal()) return fmt::format("signal {}", *signal);
    if (const auto code = status.code()) return fmt::format("exit {}", *code);
    return "unknown";
}

/// An argument list can be megabytes long; a record says what it began with.
std::vector<std::string> shortened(const std::vector<std::string>& argv)
{
    constexpr std::size_t kLongest = 4096;
    std::vector<std::string> out;
    std::size_t total = 0;
    for (const auto& word : argv) {
        if (total + word.size() > kLongest) {
            out.emplace_back("…");
            break;
        }
        total += word.size();
        out.push_back(printable_utf8(word));
    }
    return out;
}

} // namespace

Task<Status> Lifecycle::exec(SandboxRecord sandbox, ExecSpec spec)
{
    return exec(std::move(sandbox), std::move(spec), ExecWish{});
}

Task<Status> Lifecycle::exec(SandboxRecord sandbox, ExecSpec spec, ExecWish wish)
{
    BERTH_CO_CHECK(validate(spec));
    BERTH_CO_TRY(auto* const where, co_await backend(sandbox.backend));
    ExecRecord record{.id = spec.id,
                      .sandbox = sandbox.id(),
                      .generation = sandbox.generation,
                      .argv = shortened(spec.argv),
                      .cwd = spec.cwd,
                      .user = spec.user,
                      .started = clock_.now(),
                      .ended = {},
                      .outcome = {}};
    if (spec.timeout) BERTH_CO_CHECK(co_await set_deadline(*where, handle(sandbox), *spec.timeout, record));
    sandbox.last_used = std::max(sandbox.last_used, record.started);
    auto* const at_once = dynamic_cast<BlockingExec*>(where);
    Status started;
    BERTH_CO_CHECK(co_await stored([&](Store& store) -> Status {
        if (wish.first) BERTH_CHECK(wish.first());
        BERTH_CHECK(store.add_exec(record, sandbox.deadline(), {events::exec_started(record)}));
        hooks::kill_point("exec recorded");
        using Reader = BlockingExec::Reader;
        if (at_once != nullptr)
            started =
                at_once->exec_now(handle(sandbox), spec, wish.followed ? Reader::Follows : Reader::Unknown);
        return {};
    }));
    if (at_once == nullptr) started = co_await where->exec(handle(sandbox), spec);
    if (started) co_return Status{};
    record.ended = clock_.now();
    record.outcome = "not started: " + started.error().line();
    BERTH_CO_CHECK(co_await stored([&](Store& store) {
        return store.end_exec(record, sandbox.deadline(), {events::exec_ended(record)});
    }));
    co_return started;
}

Task<Status> Lifecycle::finish_exec(SandboxRecord sandbox, std::string exec, ExitStatus status,
                                    bool timed_out)
{
    BERTH_CO_TRY(auto* const where, co_await backend(sandbox.backend));
    BERTH_CO_CHECK(co_await where->settle_exec(handle(sandbox), exec));
    ExecRecord record{.id = std::move(exec), .sandbox = sandbox.id(), .ended = clock_.now()};
    if (!timed_out && status.signal() == SIGKILL) {
        BERTH_CO_TRY(const auto open,
                     co_await stored([&](Store& store) { return store.execs(sandbox.id(), true); }));
        const auto at = std::ranges::find(open, record.id, &ExecRecord::id);
        timed_out = at != open.end() && at->overdue;
    }
    record.outcome = outcome_of(status, timed_out);
    sandbox.last_used = std::max(sandbox.last_used, record.ended);
    co_return co_await stored([&](Store& store) {
        return store.end_exec(record, sandbox.deadline(), {events::exec_ended(record)});
    });
}

Task<Result<std::vector<ExecRecord>>> Lifecycle::settle_execs(SandboxRecord sandbox)
{
    BERTH_CO_TRY(auto open, co_await stored([&](Store& store) { return store.execs(sandbox.id(), true); }));
    if (open.empty()) co_return open;
    BERTH_CO_TRY(auto* const where, co_await backend(sandbox.backend));
    BERTH_CO_TRY(const auto known, co_await where->execs(handle(sandbox)));
    std::vector<ExecRecord> running;
    for (auto& exec : open) {
        const auto at = std::ranges::find(known, exec.id, &ExecInfo::id);
        if (exec.generation == sandbox.generation && at != known.end() && at->running) {
            running.push_back(std::move(exec));
            continue;
        }
        // Recorded a moment ago by somebody who is about to start it: not lost yet.
        if (at == known.end() && clock_.now() - exec.started < std::chrono::seconds(30) &&
            exec.generation == sandbox.generation && sandbox.state == State::Running) {
            running.push_back(std::move(exec));
            continue;
        }
        if (at != known.end()) BERTH_CO_CHECK(co_await where->settle_exec(handle(sandbox), exec.id));
        exec.ended = clock_.now();
        exec.outcome = at != known.end() && at->status ? outcome_of(*at->status, exec.overdue) : "unknown";
        BERTH_CO_CHECK(co_await stored([&](Store& store) {
            return store.end_exec(exec, sandbox.deadline(), {events::exec_ended(exec)});
        }));
    }
    co_return running;
}

Task<Result<ExecRecord>> Lifecycle::find_exec(SandboxRecord sandbox, std::string ref)
{
    BERTH_CO_TRY(const auto all,
                 co_await stored([&](Store& store) { return store.execs(sandbox.id(), false); }));
    if (all.empty()) co_return fail(Code::NotFound, "sandbox {} has run nothing yet", sandbox.id());
    const std::string prefix = ref.starts_with("exec_") ? ref : "exec_" + ref;
    std::vector<ExecRecord> some;
    for (const auto& exec : all)
        if (exec.id.starts_with(prefix)) some.push_back(exec);
    if (ref.empty()) some = {all.back()};
    if (some.empty())
        co_return fail(Code::NotFound, "sandbox {} has no exec '{}': berth inspect {} lists them",
                       sandbox.id(), printable(ref, 60), sandbox.id());
    if (some.size() > 1)
        co_return fail(Code::Conflict, "'{}' stands for {} execs, the first is {}", printable(ref, 60),
                       some.size(), some.front().id);
    if (some.front().generation != sandbox.generation)
        co_return fail(Code::NotFound, "exec {} is gone with generation {}: the sandbox is at generation {}",
                       some.front().id, some.front().generation, sandbox.generation);
    co_return some.front();
}

} // namespace berth
