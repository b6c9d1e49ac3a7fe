#include <csignal>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "core/exec_reader.hpp"
#include "lifecycle/cancel.hpp"
#include "lifecycle/documents.hpp"
#include "lifecycle/told_end.hpp"
#include "server/own/api.hpp"
#include "server/own/exec_words.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto kKeepalive = 15s;
constexpr std::size_t kInputLimit = std::size_t{16} << 20;

Result<ExecSpec> read_exec(const json::Reader& reader)
{
    BERTH_CHECK(reader.only(members_of("NewExec")));
    ExecSpec out;
    BERTH_TRY(const auto argv, reader.at("argv"));
    BERTH_TRY(out.argv, argv.strings());
    if (out.argv.empty()) return argv.refuse("at least the name of a program");
    BERTH_TRY(const auto env, reader.find("env"));
    if (env) {
        BERTH_TRY(const auto members, env->members());
        for (const auto& [name, value] : members) {
            BERTH_TRY(out.env[name], value.string());
        }
    }
    BERTH_TRY(const auto workdir, reader.find("workdir"));
    if (workdir) {
        BERTH_TRY(out.cwd, workdir->string());
    }
    BERTH_TRY(const auto user, reader.find("user"));
    if (user) {
        BERTH_TRY(out.user, user->string());
    }
    BERTH_TRY(const auto input, reader.find("stdin"));
    if (input) {
        BERTH_TRY(const bool open, input->boolean());
        if (open) out.input = ExecSpec::Stdin::Open;
    }
    BERTH_TRY(const auto terminal, reader.find("terminal"));
    if (terminal) {
        BERTH_TRY(out.terminal, read_size(*terminal));
    }
    BERTH_TRY(const auto timeout, reader.find("timeout_seconds"));
    if (timeout) {
        BERTH_TRY(const auto seconds, timeout->number());
        if (!(seconds > 0) || seconds > 1e9) return timeout->refuse("must be longer than zero");
        out.timeout =
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
    }
    return out;
}

/// As a page's EventSource reads it.
std::string server_event(const ExecEvent& event, bool timed_out)
{
    return fmt::format("id: {}\nevent: {}\ndata: {}\n\n", event.sequence, to_string(event.kind),
                       json::dump(documents::event(event, timed_out)));
}

Result<std::uint64_t> write_id_of(const http::RequestHead& head)
{
    const auto* const given = head.parameter("write");
    if (given == nullptr) return static_cast<std::uint64_t>(system_clock().now().time_since_epoch().count());
    BERTH_TRY(const auto number, parse_int(*given, 1, INT64_MAX, "write"));
    return static_cast<std::uint64_t>(number);
}

/// Between TERM and KILL.
Result<std::chrono::milliseconds> grace_of(const http::RequestHead& head)
{
    const auto* const given = head.parameter("grace_seconds");
    if (given == nullptr) return kCancelGrace;
    const bool number = given->find_first_not_of("0123456789.") == std::string::npos;
    const auto grace = parse_duration(number ? *given + "s" : *given);
    if (!number || !grace || *grace > kLongestCancelGrace)
        return fail(Code::Invalid, "grace_seconds: a number from 0 to {}",
                    std::chrono::duration_cast<std::chrono::seconds>(kLongestCancelGrace).count());
    return std::chrono::ceil<std::chrono::milliseconds>(*grace);
}

} // namespace

Result<TerminalSize> read_size(const json::Reader& reader)
{
    BERTH_CHECK(reader.only(members_of("TerminalSize")));
    TerminalSize out;
    BERTH_TRY(const auto rows, reader.at("rows"));
    BERTH_TRY(const auto height, rows.integer(1, 65535));
    BERTH_TRY(const auto columns, reader.at("columns"));
    BERTH_TRY(const auto width, columns.integer(1, 65535));
    out.rows = static_cast<std::uint16_t>(height);
    out.columns = static_cast<std::uint16_t>(width);
    return out;
}

Result<std::uint64_t> first_event(const http::RequestHead& head)
{
    const auto* const after = head.parameter("after");
    const std::string_view last = after != nullptr ? std::string_view(*after) : head.value("last-event-id");
    if (last.empty()) return 0;
    BERTH_TRY(const auto number, parse_int(last, 0, INT64_MAX - 1, "after"));
    return static_cast<std::uint64_t>(number) + 1;
}

Task<void> Api::attend(SandboxRecord record, ExecSpec spec)
{
    auto where = co_await lifecycle().backend(record.backend);
    if (!where) co_return;
    // Its input is its client's, who ends it; its time is in its record.
    spec.input = ExecSpec::Stdin::None;
    const bool timed = std::exchange(spec.timeout, std::nullopt).has_value();
    auto follow = (*where)->follow(Lifecycle::handle(record), spec, {});
    Result<RunOutcome> ended = fail(Code::Internal, "exec {} was not followed", spec.id);
    if (timed)
        ended = std::get<0>(co_await (std::move(follow) || lifecycle().hold_to_time(record, spec.id)));
    else
        ended = co_await std::move(follow);
    const auto status = ended ? ended->status : ExitStatus::unknown();
    if (leaving_) co_return;
    const auto noted = co_await lifecycle().finish_exec(record, spec.id, status);
    if (!noted) log::debug("an end was not recorded", {{"exec", spec.id}, {"why", noted.error().line()}});
}

Task<Answer> Api::start_exec(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    BERTH_CO_TRY(auto spec, read_exec(json::Reader(body)));
    BERTH_CO_TRY(auto used, co_await usable(call));
    const auto begin = [&](Backend&, const SandboxRecord& record) {
        spec.id = make_exec_id(system_clock());
        return lifecycle().exec(record, spec);
    };
    BERTH_CO_CHECK(co_await in(call, used, begin));
    spawn(co_await asio::this_coro::executor, attend(used.record, spec));
    json::Object out = documents::outcome(used);
    out["id"] = spec.id;
    out["sandbox"] = used.record.id();
    co_return http::json_response(201, out);
}

Task<Answer> Api::list_execs(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto all,
                 co_await ground_.pool.call([&] { return ground_.berth.store().execs(record.id(), false); }));
    json::Array out;
    for (const auto& one : all) out.emplace_back(documents::exec(one));
    json::Object document;
    document["execs"] = std::move(out);
    co_return http::json_response(200, document);
}

Task<Result<ExecRecord>> Api::exec_of(const Call& call, const SandboxRecord& record)
{
    if (!is_id(call.parameters[1], "exec_")) co_return fail(Code::NotFound, "no such exec");
    co_return co_await lifecycle().find_exec(record, call.parameters[1]);
}

Task<Answer> Api::get_exec(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto exec, co_await exec_of(call, record));
    co_return http::json_response(200, documents::exec(exec));
}

Task<Answer> Api::exec_events(Call& call)
{
    auto& exchange = call.exchange;
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto exec, co_await exec_of(call, record));
    BERTH_CO_CHECK(has_log(exec));
    BERTH_CO_TRY(const auto from, first_event(exchange.head()));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    ExecReader reader(*where, Lifecycle::handle(record), exec.id, from);
    if (!co_await exchange.begin(200, {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}}))
        co_return fail(Code::Unavailable, "the client is gone");
    while (!reader.closed() && !leaving_) {
        const auto wake = system_clock().steady() + kKeepalive;
        auto first = co_await (reader.next(wake) || exchange.gone());
        if (first.index() == 1) co_return fail(Code::Unavailable, "the client is gone");
        const auto& events = std::get<0>(first);
        // Before its time and without an event: somebody who had seen everything.
        if (events && events->empty() && system_clock().steady() < wake) break;
        std::string out;
        if (!events) {
            out = fmt::format("event: error\ndata: {}\n\n", json::dump(json::error_document(events.error())));
            (void)co_await exchange.write(out);
            break;
        }
        for (const auto& event : *events)
            out += server_event(event, event.kind == ExecEvent::Kind::Exit &&
                                           co_await timed_out(lifecycle(), record, exec.id, event.status));
        if (out.empty() && !reader.closed()) out = ": still here\n\n";
        if (!out.empty() && !co_await exchange.write(out))
            co_return fail(Code::Unavailable, "the client is gone");
    }
    (void)co_await exchange.finish();
    co_return http::Response{};
}

Task<Answer> Api::write_input(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto id, write_id_of(call.exchange.head()));
    BERTH_CO_TRY(auto bytes, co_await call.exchange.body(kInputLimit));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    const auto& exec = call.parameters[1];
    auto taken = co_await where->write_input(Lifecycle::handle(record), exec, id, std::move(bytes));
    if (!taken) co_return std::unexpected(refusal(std::move(taken).error(), exec));
    json::Object out;
    out["taken"] = *taken; // fewer than were sent when the command does not read
    out["write"] = id;
    co_return http::json_response(200, out);
}

Task<Answer> Api::close_input(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto id, write_id_of(call.exchange.head()));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    auto closed = co_await where->close_input(Lifecycle::handle(record), call.parameters[1], id);
    if (!closed) co_return std::unexpected(refusal(std::move(closed).error(), call.parameters[1]));
    co_return http::empty_response();
}

Task<Answer> Api::send_signal(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("Signal")));
    BERTH_CO_TRY(const auto at, reader.at("signal"));
    BERTH_CO_TRY(const auto number, at.integer(1, SIGRTMAX));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    BERTH_CO_CHECK(
        co_await where->signal(Lifecycle::handle(record), call.parameters[1], static_cast<int>(number)));
    co_return http::empty_response();
}

Task<Answer> Api::kill_exec(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto exec, co_await exec_of(call, record));
    BERTH_CO_TRY(const auto grace, grace_of(call.exchange.head()));
    BERTH_CO_CHECK(co_await cancel_exec(lifecycle(), record, exec, grace));
    co_return http::empty_response();
}

Task<Answer> Api::resize(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    BERTH_CO_TRY(const auto size, read_size(json::Reader(body)));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    auto done = co_await where->resize(Lifecycle::handle(record), call.parameters[1], size);
    if (!done) co_return std::unexpected(refusal(std::move(done).error(), call.parameters[1]));
    co_return http::empty_response();
}

} // namespace berth::own
