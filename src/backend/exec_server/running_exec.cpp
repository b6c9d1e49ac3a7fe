#include "backend/exec_server/running_exec.hpp"

#include <algorithm>

#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/relay_frames.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;
using keeper::Kind;
using keeper::RelayHead;
using keeper::RelayKind;

constexpr auto kStartPatience = 60s;
constexpr auto kReach = 25s; // the server keeps a session for 30 s
constexpr auto kAnswer = 20s;
constexpr auto kBreath = 100ms;
constexpr auto kLook = 50ms; // for somebody who wants it
constexpr auto kMoment = 200ms;
constexpr std::size_t kMostEarly = 4096;
constexpr std::uint64_t kGrantStep = keeper::kRelayFirstCredit / 4;

SteadyTime now() { return system_clock().steady(); }

Error impossible(std::string_view what)
{
    return fail(Code::Invalid, "the exec-server tells what cannot be: {}", what).error();
}

} // namespace

RunningExec::RunningExec(const Config& config, keeping::RelayedWish wish)
    : config_(config), wish_(std::move(wish)), writes_(random_hex(8))
{
}

RunningExec::~RunningExec()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
        if (link_) link_->hang_up(fail(Code::Unavailable, "this process has let the exec go").error());
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    std::shared_ptr<Link> link;
    {
        const std::scoped_lock lock(mutex_);
        link = std::move(link_);
    }
    // Its thread ends here, while everything it uses is still there.
}

Status RunningExec::open_link(const std::string& resume, SteadyTime until)
{
    BERTH_TRY(auto link,
              Link::open(
                  config_, resume,
                  [this](const std::string& method, const json::Value& params) { hear(method, params); },
                  until));
    const std::scoped_lock lock(mutex_);
    session_ = link->session();
    link_ = std::move(link);
    changed_.notify_all();
    return {};
}

Status RunningExec::start(const ExecSpec& spec, const std::string& cwd, const Layout& layout,
                          const Confines& confines, const std::vector<std::string>& env)
{
    BERTH_TRY(const auto begin, keeping::relay_begin(spec, cwd, env));
    const auto until = now() + kStartPatience;
    BERTH_CHECK(open_link({}, until));
    BERTH_CHECK(write_session(wish_.directory.get(), session_));
    codex::StartParams start;
    start.process_id = wish_.exec;
    start.argv = {layout.relay, "x"};
    start.cwd = layout.work;
    start.pipe_stdin = true;
    start.sandbox = confines;
    BERTH_TRY([[maybe_unused]] const auto answer,
              link_->call("process/start", codex::write_start(start), until));
    BERTH_CHECK(send(RelayKind::Begin, 0, begin));
    {
        std::unique_lock lock(mutex_);
        while (!begun_ && !failed_ && !bad_ && !done_ && !link_->broken() && now() < until)
            changed_.wait_for(lock, kLook);
        if (failed_) return std::unexpected(keeping::start_error(failed_->first, failed_->second, spec, cwd));
        if (bad_) return std::unexpected(*bad_);
        if (done_ && !begun_)
            return fail(Code::Unsupported,
                        "berth's own program cannot run at the exec-server: another kind of machine, or no "
                        "programs may be started below {}",
                        printable(layout.root));
        if (const auto why = link_->broken(); why && !begun_) return std::unexpected(*why);
        if (!begun_)
            return fail(Code::DeadlineExceeded, "the exec-server does not say whether the command runs");
    }
    thread_ = std::thread([this] { run(); });
    return {};
}

Status RunningExec::go_on()
{
    auto session = read_session(wish_.directory.get());
    if (!session && session.error().code == Code::NotFound) { // nobody was asked to start anything
        finish_unknown();
        return {};
    }
    if (!session) return std::unexpected(std::move(session).error());
    session_ = *std::move(session);
    auto position = read_position(wish_.directory.get());
    if (!position && position.error().code != Code::NotFound) return std::unexpected(position.error());
    if (position) position_ = *std::move(position);
    // What was granted is not known; a grant that is not new changes nothing.
    granted_ = position_.spent;
    begun_ = wish_.writer.pid() != 0;
    taken_up_ = true;
    thread_ = std::thread([this] { run(); });
    return {};
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

void RunningExec::wait_heard(SteadyTime until) const
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return (link_ && !catching_up_) || done_ || lost_; });
}

void RunningExec::run()
{
    for (Next next = link_ ? Next::Attend : Next::Connect; next != Next::Over;)
        next = next == Next::Connect ? connect() : attend();
    std::shared_ptr<Link> link;
    {
        const std::scoped_lock lock(mutex_);
        done_ = true;
        link = std::move(link_);
    }
    // The session is free before the right to take it up is.
    link.reset();
    const std::scoped_lock lock(mutex_);
    wish_.claim.reset();
    changed_.notify_all();
}

RunningExec::Next RunningExec::connect()
{
    const auto until = now() + kReach;
    for (;;) {
        std::shared_ptr<Link> old;
        {
            const std::scoped_lock lock(mutex_);
            if (stopping_ || done_) return Next::Over;
            old = std::move(link_);
            catching_up_ = true;
        }
        old.reset();
        auto done = open_link(session_, std::min(until, now() + kAnswer));
        if (done) {
            std::shared_ptr<Link> link;
            {
                const std::scoped_lock lock(mutex_);
                link = link_;
            }
            done = catch_up(*link);
        }
        if (done) return Next::Attend;
        const auto why = std::move(done).error();
        if (why.code == Code::NotFound) { // the session is over, and with it the command
            finish_unknown();
            return Next::Over;
        }
        std::unique_lock lock(mutex_);
        if (why.code == Code::Invalid || why.code == Code::Denied || now() >= until) {
            lost_ = why;
            return Next::Over;
        }
        changed_.wait_for(lock, kBreath, [&] { return stopping_; });
    }
}

Status RunningExec::catch_up(Link& link)
{
    std::uint64_t after = 0;
    {
        const std::scoped_lock lock(mutex_);
        after = position_.seq;
    }
    codex::ReadParams read;
    read.process_id = wish_.exec;
    read.after = after;
    auto asked = link.call("process/read", codex::write_read(read), now() + kAnswer);
    if (!asked) {
        auto why = std::move(asked).error();
        if (why.code == Code::Conflict) why.code = Code::NotFound; // it ended, and nobody kept its end
        return std::unexpected(std::move(why));
    }
    BERTH_TRY(const auto answer, codex::read_read_answer(*asked));
    if (!codex::complete(answer, after))
        return fail(Code::NotFound, "the exec-server has not kept what {} printed meanwhile", wish_.exec);
    std::unique_lock lock(mutex_);
    for (const auto& chunk : answer.chunks)
        if (chunk.seq > position_.seq) BERTH_CHECK(apply(chunk));
    // The two other events take a number each, and are told without it.
    if (answer.next > position_.seq + 1) position_.seq = answer.next - 1;
    if (answer.closed) BERTH_CHECK(apply({.kind = codex::ProcessEvent::Kind::Closed, .seq = position_.seq}));
    catching_up_ = false;
    while (!early_.empty() && !done_) {
        const auto event = std::move(early_.begin()->second);
        early_.erase(early_.begin());
        if (event.seq <= position_.seq) continue;
        if (event.seq != position_.seq + 1) return fail(Code::Unavailable, "an event is missing");
        BERTH_CHECK(apply(event));
    }
    changed_.notify_all();
    return {};
}

RunningExec::Next RunningExec::attend()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        if (stopping_ || done_) return Next::Over;
        if (bad_) {
            lost_ = bad_;
            return Next::Over;
        }
        if (!link_ || link_->broken()) return Next::Connect;
        if (keeping::is_asked_for(wish_.directory.get())) {
            keeping::stop_asking(wish_.directory.get());
            return Next::Over;
        }
        if (position_.spent + keeper::kRelayFirstCredit >= granted_ + kGrantStep) {
            const auto grant = position_.spent + keeper::kRelayFirstCredit;
            lock.unlock();
            const auto sent = send(RelayKind::Credit, grant);
            lock.lock();
            if (sent) granted_ = grant;
            if (!sent && sent.error().code == Code::Conflict)
                granted_ = ~std::uint64_t{0} / 2; // it has ended
            continue;
        }
        changed_.wait_for(lock, kLook);
    }
}

/// On the link's thread.
void RunningExec::hear(const std::string& method, const json::Value& params)
{
    auto told = codex::read_process_event(method, params);
    const std::scoped_lock lock(mutex_);
    if (!told) {
        bad_ = std::move(told).error();
        changed_.notify_all();
        return;
    }
    if (!*told || (*told)->process != wish_.exec || stopping_ || done_) return;
    auto& event = (*told)->event;
    if (event.seq <= position_.seq) return;
    if (catching_up_ || event.seq != position_.seq + 1) {
        if (early_.size() < kMostEarly) early_[event.seq] = std::move(event);
        // Without a connection that is being made anew nobody will bring what is missing.
        if (!catching_up_ && link_) link_->hang_up(fail(Code::Unavailable, "an event is missing").error());
        changed_.notify_all();
        return;
    }
    if (auto done = apply(event); !done) bad_ = std::move(done).error();
    changed_.notify_all();
}

/// With the lock.
Status RunningExec::apply(const codex::ProcessEvent& event)
{
    using EventKind = codex::ProcessEvent::Kind;
    if (event.kind == EventKind::Output && event.stream == codex::Stream::Stdout)
        BERTH_CHECK(take(event.bytes));
    position_.seq = event.seq;
    if (event.kind == EventKind::Closed) {
        if (!taken_up_ && (!begun_ || failed_)) { // whoever starts it is told, and there is no exec
            done_ = true;
            return {};
        }
        BERTH_CHECK(
            wish_.writer.exit(keeper::kStatusUnknown)); // where its true end was told before, that stays
        BERTH_CHECK(wish_.writer.close());
        done_ = true;
        return {};
    }
    return write_position(wish_.directory.get(), position_);
}

/// What the relay says; with the lock.
Status RunningExec::take(const std::string& bytes)
{
    auto& writer = wish_.writer;
    std::string& all = position_.partial;
    all += bytes;
    std::size_t at = 0;
    while (all.size() - at >= sizeof(RelayHead)) {
        RelayHead head{};
        all.copy(reinterpret_cast<char*>(&head), sizeof head, at);
        if (head.length > keeper::kRelayPiece) return std::unexpected(impossible("a frame too long"));
        if (all.size() - at < sizeof head + head.length) break;
        std::string_view body = std::string_view(all).substr(at + sizeof head, head.length);
        at += sizeof head + head.length;
        const auto output = [&](Kind kind, int stream) -> Status {
            position_.spent += keeper::relay_cost(body.size());
            const std::uint64_t have = writer.bytes(stream);
            if (head.offset > have) return std::unexpected(impossible("output after a hole"));
            const std::uint64_t known = have - head.offset;
            if (known >= body.size()) return {};
            return writer.output(kind, body.substr(known));
        };
        switch (head.kind) {
        case RelayKind::Started:
            if (writer.pid() == 0) BERTH_CHECK(writer.start(static_cast<int>(head.offset & 0x7fffffff)));
            begun_ = true;
            break;
        case RelayKind::Failed:
            failed_ = {static_cast<keeper::Step>(head.offset >> 32), static_cast<int>(head.offset & 0xfff)};
            break;
        case RelayKind::Out: BERTH_CHECK(output(Kind::Out, 0)); break;
        case RelayKind::Err: BERTH_CHECK(output(Kind::Err, 1)); break;
        case RelayKind::Pty: BERTH_CHECK(output(Kind::Pty, 0)); break;
        case RelayKind::Exit: BERTH_CHECK(writer.exit(static_cast<int>(head.offset & 0xffff))); break;
        case RelayKind::Taken:
            position_.taken = std::min(std::max(position_.taken, head.offset), position_.sent);
            break;
        case RelayKind::Deaf: deaf_ = true; break;
        default: return std::unexpected(impossible("an unknown frame"));
        }
    }
    all.erase(0, at);
    changed_.notify_all();
    return {};
}

void RunningExec::finish_unknown()
{
    const std::scoped_lock lock(mutex_);
    auto done = wish_.writer.exit(keeper::kStatusUnknown);
    if (done) done = wish_.writer.close();
    if (!done)
        log::warn("an exec log could not be finished", {{"exec", wish_.exec}, {"why", done.error().line()}});
    done_ = true;
    changed_.notify_all();
}

Result<std::shared_ptr<Link>> RunningExec::link_within(SteadyTime until)
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until,
                        [&] { return done_ || lost_ || (link_ && !catching_up_ && !link_->broken()); });
    if (lost_) return std::unexpected(*lost_);
    if (done_) return fail(Code::Conflict, "{} has ended", wish_.exec);
    if (!link_ || link_->broken()) return fail(Code::Unavailable, "the exec-server is out of reach");
    return link_;
}

Status RunningExec::send(RelayKind kind, std::uint64_t offset, std::string_view bytes)
{
    const std::scoped_lock order(sending_);
    // The same id until it is answered: the server does not take it twice.
    codex::WriteParams write{.process_id = wish_.exec,
                             .bytes = keeping::relay_frame(kind, offset, bytes),
                             .write_id = fmt::format("{}-{}", writes_, ++sends_)};
    const auto until = now() + kReach;
    for (;;) {
        BERTH_TRY(const auto link, link_within(until));
        auto answer = link->call("process/write", codex::write_write(write), now() + kAnswer);
        if (!answer && link->broken() && now() < until) continue;
        if (!answer) return std::unexpected(std::move(answer).error());
        BERTH_TRY(const auto status, codex::read_write_answer(*answer));
        if (status == codex::WriteAnswer::Accepted) return {};
        if (status != codex::WriteAnswer::Starting || now() >= until)
            return fail(Code::Conflict, "{} has ended", wish_.exec);
        std::this_thread::sleep_for(10ms);
    }
}

Result<std::size_t> RunningExec::write(std::uint64_t id, std::string_view bytes)
{
    std::uint64_t offset = 0;
    std::string_view piece;
    {
        std::unique_lock lock(mutex_);
        if (id != 0 && id == last_write_) return last_taken_;
        const auto room = [&] {
            const std::uint64_t waiting = position_.sent - position_.taken;
            return waiting >= keeper::kRelayInput ? std::uint64_t{0} : keeper::kRelayInput - waiting;
        };
        changed_.wait_for(lock, kMoment, [&] { return room() > 0 || deaf_ || done_ || lost_; });
        if (ended_ || deaf_) return fail(Code::Conflict, "the input of {} has ended", wish_.exec);
        piece = bytes.substr(0, room());
        last_write_ = id;
        last_taken_ = piece.size();
        if (piece.empty()) return std::size_t{0};
        offset = position_.sent;
        position_.sent += piece.size();
        BERTH_CHECK(write_position(wish_.directory.get(), position_));
    }
    BERTH_CHECK(send(RelayKind::Input, offset, piece));
    return piece.size();
}

Status RunningExec::close_input()
{
    {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
    }
    return send(RelayKind::End, 0);
}

Status RunningExec::signal(int signo)
{
    if (signo < 0 || signo > 64) return fail(Code::Invalid, "{} is no signal", signo);
    return send(RelayKind::Signal, static_cast<std::uint64_t>(signo));
}

Status RunningExec::resize(TerminalSize size)
{
    return send(RelayKind::Resize, std::uint64_t{size.rows} << 16 | size.columns);
}

Status RunningExec::kill() { return send(RelayKind::Kill, 0); }

} // namespace berth::exec_server
