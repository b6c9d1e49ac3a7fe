#include "core/exec_reader.hpp"

namespace berth {

Status has_log(const ExecRecord& exec)
{
    if (!exec.outcome.starts_with(kNotStarted)) return {};
    return fail(Code::NotFound, "{} has no log, it was {}", exec.id, exec.outcome);
}

Task<Result<std::vector<ExecEvent>>> ExecReader::next(SteadyTime until)
{
    if (closed_) co_return std::vector<ExecEvent>{};
    auto events = co_await backend_.read_events(sandbox_, exec_, position_, until);
    if (!events && events.error().code == Code::Unavailable && !settled_) {
        settled_ = true;
        if (auto settled = co_await backend_.settle_exec(sandbox_, exec_); !settled) co_return events;
        events = co_await backend_.read_events(sandbox_, exec_, position_, until);
    }
    if (!events || events->empty()) co_return events;
    position_ = events->back().sequence + 1;
    closed_ = events->back().kind == ExecEvent::Kind::Closed;
    co_return events;
}

} // namespace berth
