#include "backend/e2b/running_exec.hpp"

#include "backend/e2b/command.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;
using keeper::Kind;

constexpr auto kStartPatience = 60s;
constexpr auto kReach = 30s; // without an answer it is out of reach
constexpr auto kFirstBreath = 50ms;
constexpr auto kLongestBreath = 2s;

SteadyTime now() { return system_clock().steady(); }

Kind kind_of(e2b::Output stream)
{
    switch (stream) {
    case e2b::Output::Stdout: return Kind::Out;
    case e2b::Output::Stderr: return Kind::Err;
    case e2b::Output::Pty: return Kind::Pty;
    }
    return Kind::Out;
}

std::string connect_message(const std::string& exec)
{
    e2b::ProcessCall call;
    call.process = exec;
    return e2b::process_request(call);
}

} // namespace

RunningExec::RunningExec(Cloud& cloud, Wish wish) : cloud_(cloud), wish_(std::move(wish)) {}

RunningExec::~RunningExec()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    cord_.pull();
    if (thread_.joinable()) thread_.join();
}

Status RunningExec::start(const Session& session, const e2b::StartRequest& request, const ExecSpec& spec)
{
    thread_ = std::thread([this, session, first = e2b::start_request(request)] { run(session, first); });
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kStartPatience, [&] { return begun_ || done_; });
    if (begun_) return {};
    if (refused_) return std::unexpected(start_error(*refused_, spec));
    if (failed_) return std::unexpected(*failed_);
    return fail(Code::DeadlineExceeded, "the E2B server does not say whether the command runs");
}

void RunningExec::go_on()
{
    begun_ = true;
    reconnecting_ = true;
    thread_ = std::thread([this] { run(std::nullopt, connect_message(wish_.exec)); });
}

bool RunningExec::done() const
{
    const std::scoped_lock lock(mutex_);
    return done_;
}

std::optional<Error> RunningExec::lost() const
{
    const std::scoped_lock lock(mutex_);
    return lost_;
}

void RunningExec::wait_done(SteadyTime until) const
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return done_; });
}

void RunningExec::run(std::optional<Session> session, std::string first)
{
    std::string message = std::move(first);
    SteadyTime broken = now(); // since when nothing was heard that should have been
    std::chrono::milliseconds breath = kFirstBreath;
    for (;;) {
        StreamEnd end;
        bool spoke = false;
        if (!session) {
            auto fresh = cloud_.session(wish_.instance);
            if (fresh)
                session = *std::move(fresh);
            else
                end.cut = std::move(fresh).error();
        }
        if (session) {
            const char* const method = reconnecting_ ? "process.Process/Connect" : "process.Process/Start";
            const auto on_message = [&](std::string_view text) {
                spoke = true;
                return take(text);
            };
            end = cloud_.envd().stream(*session, method, message, wish_.user, on_message, cord_);
        }
        // A quiet stream may have been silent for long before it broke: the time counts from then.
        if (spoke) {
            broken = now();
            breath = kFirstBreath;
        }
        Error why;
        const Next next = judge(std::move(end), why);
        std::unique_lock lock(mutex_);
        if (next == Next::Done || stopping_) break;
        if (!begun_) {
            failed_ = std::move(why);
            break;
        }
        if (next == Next::Lost || now() >= broken + kReach) {
            lost_ = std::move(why);
            break;
        }
        session.reset();
        reconnecting_ = true;
        message = connect_message(wish_.exec);
        changed_.wait_for(lock, breath, [&] { return stopping_; });
        if (stopping_) break;
        breath = std::min<std::chrono::milliseconds>(breath * 2, kLongestBreath);
    }
    const std::scoped_lock lock(mutex_);
    done_ = true;
    changed_.notify_all();
}

Status RunningExec::take(std::string_view message)
{
    BERTH_TRY(const auto event, e2b::read_event(message));
    auto& writer = wish_.writer;
    if (event.pid && reconnecting_) {
        BERTH_CHECK(writer.gap());
    } else if (event.pid && writer.pid() == 0) {
        BERTH_CHECK(writer.start(static_cast<int>(*event.pid)));
        const std::scoped_lock lock(mutex_);
        begun_ = true;
        changed_.notify_all();
    }
    if (writer.pid() == 0 && (event.stream || event.ended))
        return fail(Code::Invalid, "the stream of {} does not begin with a start", wish_.exec);
    if (event.stream && !event.bytes.empty()) BERTH_CHECK(writer.output(kind_of(*event.stream), event.bytes));
    if (event.ended) BERTH_CHECK(writer.exit(e2b::wait_status(event).value_or(keeper::kStatusUnknown)));
    return {};
}

/// The sandbox or the process is gone, and nobody saw how it ended.
RunningExec::Next RunningExec::finish_unknown()
{
    auto done = wish_.writer.exit(keeper::kStatusUnknown);
    if (done) done = wish_.writer.close();
    if (!done)
        log::warn("an exec log could not be finished", {{"exec", wish_.exec}, {"why", done.error().line()}});
    return Next::Done;
}

RunningExec::Next RunningExec::judge(StreamEnd end, Error& why)
{
    bool begun = false;
    {
        const std::scoped_lock lock(mutex_);
        begun = begun_;
        if (stopping_) return Next::Done;
    }
    if (wish_.writer.exited()) {
        if (auto closed = wish_.writer.close(); !closed)
            log::warn("an exec log could not be finished",
                      {{"exec", wish_.exec}, {"why", closed.error().line()}});
        return Next::Done;
    }
    if (end.told && end.failure) {
        if (!begun) {
            const std::scoped_lock lock(mutex_);
            refused_ = std::move(end.failure);
            return Next::Done;
        }
        why = connect::error_of(*end.failure);
        why.message = printable(why.message, 300);
        // The daemon has forgotten it, or has ended it at a deadline of somebody's.
        if (end.failure->status == connect::Status::NotFound ||
            end.failure->status == connect::Status::DeadlineExceeded)
            return finish_unknown();
        return Next::Reconnect;
    }
    if (end.told)
        why = fail(Code::Unavailable, "the stream of {} ended without its exit", wish_.exec).error();
    else
        why = std::move(end.cut);
    if (!begun) return Next::Lost;
    // An answer that nobody can understand does not get better.
    if (why.code == Code::Invalid || why.code == Code::Exhausted || why.code == Code::Denied)
        return Next::Lost;
    if (why.code == Code::NotFound || why.code == Code::Conflict)
        return finish_unknown();   // by the control plane
    cloud_.forget(wish_.instance); // the next round asks how it is
    return Next::Reconnect;
}

} // namespace berth::e2b_client
