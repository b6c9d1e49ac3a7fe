#include "cli/attended_exec.hpp"

#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "base/io.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/event_json.hpp"
#include "cli/exec_options.hpp"
#include "cli/exec_stream.hpp"
#include "lifecycle/documents.hpp"
#include "sys/pty.hpp"

namespace berth::cli {

namespace {

int finish(const RunOutcome& outcome, const Common& common, const ExecSpec& exec)
{
    for (const auto& what : outcome.struck) {
        if (common.json)
            (void)write_all(STDOUT_FILENO, limit_line(what));
        else
            say(what);
    }
    if (outcome.timed_out) {
        const Error error{
            .code = Code::DeadlineExceeded,
            .message = fmt::format("timed out after {}: the command was killed, with what it had started",
                                   show(*exec.timeout))};
        return report(error, common, kTimedOut);
    }
    if (!outcome.status.known()) {
        const Error error{.code = Code::Unavailable,
                          .message = fmt::format("{} was lost: nobody saw how it ended", exec.id)};
        return report(error, common, kOwnFailure);
    }
    return outcome.status.shell_code();
}

Task<Result<int>> attend(Berth& berth, const Common& common, std::string ref, ExecSpec exec)
{
    auto& lifecycle = berth.lifecycle();
    BERTH_CO_TRY(const auto acquired, co_await lifecycle.use(std::move(ref)));
    const auto& record = acquired.record;
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(record.backend));
    if (!common.json) say_unless_attached(acquired);

    const auto handle = Lifecycle::handle(record);
    ExecStream stream(co_await boost::asio::this_coro::executor, *backend, handle, exec,
                      {.json = common.json});
    BERTH_CO_CHECK(co_await lifecycle.exec(record, exec, {.first = {}, .attended = true}));
    if (common.json) (void)write_all(STDOUT_FILENO, exec_line(acquired, exec.id));
    std::optional<sys::RawTerminal> raw;
    if (exec.terminal) {
        BERTH_CO_TRY(auto entered, sys::RawTerminal::enter(STDIN_FILENO));
        raw.emplace(std::move(entered));
    }
    auto outcome = co_await stream.run();
    raw.reset();
    if (!outcome) co_return std::unexpected(std::move(outcome).error());
    // The command has run and its code is true; that its end is recorded is the next collection's worry too.
    const auto ended = co_await lifecycle.finish_exec(record, exec.id, outcome->status, outcome->timed_out);
    if (!ended) say(fmt::format("the end of {} is not recorded yet: {}", exec.id, ended.error().line()));
    const int code = finish(*outcome, common, exec);
    if (stream.unwritten()) co_return report(*stream.unwritten(), common, kOwnFailure);
    co_return code;
}

} // namespace

Result<int> attended_exec(Berth& berth, const Common& common, const std::string& ref, ExecSpec exec)
{
    return berth.run(attend(berth, common, ref, std::move(exec)));
}

std::string exec_line(const Acquired& acquired, const std::string& exec)
{
    json::Object line{{"event", "exec"}, {"exec", exec}, {"sandbox", acquired.record.id()}};
    for (auto& member : documents::outcome(acquired)) line[member.key()] = std::move(member.value());
    return json::dump(line) + "\n";
}

} // namespace berth::cli
