// Execs as the store knows them. Their output is the backend's; their end is committed when their log is
// on disk.

#include <algorithm>
#include <csignal>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "core/blocking_exec.hpp"
#include "core/exec_reader.hpp"
#include "core/holds_time.hpp"
#include "lifecycle/deadline.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/told_end.hpp"

namespace berth {

namespace {

/// So long a command may be on its way from its record to its beginning.
constexpr std::chrono::seconds kStartPatience{30};

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
    auto* const at_once = dynamic_cast<BlockingExec*>(where);
    Status started;
    BERTH_CO_CHECK(co_await stored([&](Store& store) -> Status {
        if (wish.first) BERTH_CHECK(wish.first());
        BERTH_CHECK(store.add_exec(record, {events::exec_started(record, spec)}));
        hooks::kill_point("exec recorded");
        using Reader = BlockingExec::Reader;
        const auto reader = wish.attended   ? Reader::Attends
                            : wish.followed ? Reader::Follows
                                            : Reader::Unknown;
        if (at_once != nullptr) started = at_once->exec_now(handle(sandbox), spec, reader);
        return {};
    }));
    if (at_once == nullptr) started = co_await where->exec(handle(sandbox), spec);
    if (started) co_return Status{};
    record.ended = clock_.now();
    record.outcome = std::string(kNotStarted) + started.error().line();
    BERTH_CO_CHECK(
        co_await stored([&](Store& store) { return store.end_exec(record, {events::exec_ended(record)}); }));
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
        if (!timed_out) timed_out = co_await ended_by_time(*where, handle(sandbox), record.id, status);
    }
    record.outcome = told_end(status, timed_out);
    co_return co_await stored(
        [&](Store& store) { return store.end_exec(record, {events::exec_ended(record)}); });
}

Task<Result<std::vector<ExecRecord>>> Lifecycle::settle_execs(SandboxRecord sandbox)
{
    BERTH_CO_TRY(auto open, co_await stored([&](Store& store) { return store.execs(sandbox.id(), true); }));
    if (open.empty()) co_return open;
    BERTH_CO_TRY(auto* const where, co_await backend(sandbox.backend));
    BERTH_CO_TRY(auto known, co_await where->execs(handle(sandbox)));
    const auto is_new = [&](const ExecRecord& exec) { return clock_.now() - exec.started < kStartPatience; };
    // Of one that was prepared and never began its starter may have been killed in between: the backend
    // knows.
    bool asked = false;
    for (const auto& exec : open) {
        const auto at = std::ranges::find(known, exec.id, &ExecInfo::id);
        if (at == known.end() || !at->running || at->events > 0 || is_new(exec)) continue;
        BERTH_CO_CHECK(co_await where->settle_exec(handle(sandbox), exec.id));
        asked = true;
    }
    if (asked) {
        BERTH_CO_TRY(known, co_await where->execs(handle(sandbox)));
    }
    std::vector<ExecRecord> running;
    for (auto& exec : open) {
        const auto at = std::ranges::find(known, exec.id, &ExecInfo::id);
        if (exec.generation == sandbox.generation && at != known.end() && at->running) {
            running.push_back(std::move(exec));
            continue;
        }
        // Recorded a moment ago by somebody who is about to start it: not lost yet.
        if (at == known.end() && is_new(exec) && exec.generation == sandbox.generation &&
            sandbox.state == State::Running) {
            running.push_back(std::move(exec));
            continue;
        }
        if (at != known.end()) BERTH_CO_CHECK(co_await where->settle_exec(handle(sandbox), exec.id));
        exec.ended = clock_.now();
        const auto status = at != known.end() && at->status ? *at->status : ExitStatus::unknown();
        if (!exec.overdue && exec.timeout)
            exec.overdue = co_await ended_by_time(*where, handle(sandbox), exec.id, status);
        exec.outcome = told_end(status, exec.overdue);
        BERTH_CO_CHECK(
            co_await stored([&](Store& store) { return store.end_exec(exec, {events::exec_ended(exec)}); }));
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
