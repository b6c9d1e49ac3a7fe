#include "backend/local/attended.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "backend/local/launcher.hpp"
#include "base/strings.hpp"
#include "keeper/wire.hpp"
#include "keeper/wire_program.hpp"
#include "keeping/keeper_image.hpp"
#include "keeping/pipe.hpp"
#include "sys/launch.hpp"
#include "sys/open_files.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kStartPatience = 60s;

Result<UniqueFd> null_device()
{
    UniqueFd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!fd) return fail_errno("opening /dev/null");
    return fd;
}

/// The command's ends of its streams; ours stay in the Attended.
struct Theirs {
    UniqueFd in, out, err;
};

Status make_pipes(const AttendedCommand& command, UniqueFd& in, UniqueFd& out, UniqueFd& err, Theirs& theirs)
{
    BERTH_TRY(auto output, make_pipe());
    BERTH_TRY(auto errors, make_pipe());
    out = std::move(output.read);
    err = std::move(errors.read);
    theirs.out = std::move(output.write);
    theirs.err = std::move(errors.write);
    if (command.input) {
        BERTH_TRY(auto input, make_pipe());
        in = std::move(input.write);
        theirs.in = std::move(input.read);
    } else {
        BERTH_TRY(theirs.in, null_device());
    }
    for (const int fd : {in.get(), out.get(), err.get()})
        if (fd >= 0) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    return {};
}

/// What the keeper is to know of them. A terminal it makes itself, and sends its master.
Result<std::uint64_t> make_streams(const AttendedCommand& command, UniqueFd& in, UniqueFd& out, UniqueFd& err,
                                   Theirs& theirs)
{
    const std::uint64_t flags =
        keeper::kOneShotNewSession | keeper::kOneShotTellStart | (command.arg0 ? keeper::kOneShotNamed : 0);
    if (!command.terminal) {
        BERTH_CHECK(make_pipes(command, in, out, err, theirs));
        return flags;
    }
    for (UniqueFd* fd : {&theirs.in, &theirs.out, &theirs.err}) {
        BERTH_TRY(*fd, null_device());
    }
    return keeper::one_shot_word(flags | keeper::kOneShotTerminal, command.terminal->rows,
                                 command.terminal->columns);
}

/// Its words as the keeper takes them.
void add_words(std::vector<std::string>& to, const AttendedCommand& command)
{
    to.push_back(command.argv.front());
    if (command.arg0) to.push_back(*command.arg0);
    to.insert(to.end(), command.argv.begin() + 1, command.argv.end());
}

Error explain(const keeper::Report& report, const AttendedCommand& command)
{
    const std::error_code sys(report.error, std::generic_category());
    std::string message;
    if (report.step == keeper::Step::Directory)
        message = fmt::format("working directory {}: {}", printable(command.cwd), sys.message());
    else if (report.step == keeper::Step::Command)
        message = fmt::format("{}: {}", printable(command.argv.front()), sys.message());
    else
        message = fmt::format("preparing the command: {}", sys.message());
    // Not the policy's fault: the caller tells these apart from what cannot be held.
    return Error{
        .code = report.error == ENOENT ? Code::NotFound : Code::Unavailable, .message = message, .sys = sys};
}

} // namespace

Result<Attended> Attended::start(const StateDir& state, const SandboxSpec& spec,
                                 const AttendedCommand& command, Pools* pools)
{
    auto limits = LimitGroups::open(spec, state, pools);
    BERTH_TRY(auto prepared, prepare(state, spec, limits.availability(), pools, {}));
    BERTH_CHECK(prepared->for_one_command());
    Plan& plan = prepared->plan;
    // The caller has resolved what it mounts; another command may have put a link there since.
    for (std::size_t i = 0; i < spec.mounts.size(); ++i)
        if (prepared->binds[i].path != spec.mounts[i].source)
            return fail(Code::Unavailable, "{} is another place by now", printable(spec.mounts[i].source));
    BERTH_CHECK(limits.make(spec));
    plan.v1_tasks = limits.v1_tasks();

    BERTH_TRY(auto talk, sys::socket_pair(sys::SocketKind::SeqPacket));
    UniqueFd in, out, err;
    Theirs theirs;
    BERTH_TRY(const auto word, make_streams(command, in, out, err, theirs));
    BERTH_TRY(const int image, keeper_image());
    Entry entry;
    entry.program = image;
    entry.argv = {"o", std::to_string(word), std::to_string(prepared->user.uid),
                  std::to_string(prepared->user.gid), command.cwd};
    add_words(entry.argv, command);
    entry.env = command.env;
    entry.in = theirs.in.get();
    entry.out = theirs.out.get();
    entry.err = theirs.err.get();
    entry.socket = talk.second.get();
    entry.cgroup = limits.v2_directory();
    BERTH_TRY(auto launched, launch(plan, entry));
    Attended out_object(sys::Child::own(launched.pid, std::move(launched.pidfd)));
    // There may be a thousand of them at once: what the sandbox holds itself, or needed only to begin, we do
    // not keep for as long as it runs, least of all the maker of its network namespace.
    prepared->let_go();
    plan.binds = {};
    prepared->binds.clear();
    out_object.in = std::move(in);
    out_object.out = std::move(out);
    out_object.err = std::move(err);
    out_object.report_ = std::move(talk.first);
    out_object.notes_ = prepared->notes;
    out_object.prepared_ = std::move(prepared);
    out_object.limits_.emplace(std::move(limits));
    theirs = {};
    talk.second.reset();
    return begun(std::move(out_object), command);
}

/// Init is our own program, but it lives among hostile ones: its words are checked like theirs.
Status Attended::await_start(bool terminal, const AttendedCommand& command)
{
    BERTH_CHECK(sys::set_receive_timeout(report_.get(), kStartPatience));
    for (;;) {
        BERTH_TRY(auto message, sys::receive_message(report_.get(), Bytes{sizeof(keeper::Report)}, 1));
        if (message.bytes.empty()) return fail(Code::Internal, "the sandbox ended before its command began");
        if (message.bytes.size() != sizeof(keeper::Report))
            return fail(Code::Internal, "the sandbox's init sent {} bytes", message.bytes.size());
        keeper::Report report{};
        std::memcpy(&report, message.bytes.data(), sizeof report);
        switch (report.kind) {
        case keeper::ReportKind::Terminal:
            if (!terminal || out || message.fds.size() != 1) continue;
            out = std::move(message.fds.front());
            ::fcntl(out.get(), F_SETFL, O_RDWR | O_NONBLOCK);
            in.reset(::fcntl(out.get(), F_DUPFD_CLOEXEC, 3));
            continue;
        case keeper::ReportKind::Failed: return std::unexpected(explain(report, command));
        case keeper::ReportKind::Started: return {};
        case keeper::ReportKind::Ended: break;
        }
        return fail(Code::Internal, "the sandbox's init sent an unexpected report");
    }
}

Result<Attended> Attended::start_bare(const AttendedCommand& command)
{
    BERTH_TRY(auto talk, sys::socket_pair(sys::SocketKind::SeqPacket));
    UniqueFd in, out, err;
    Theirs theirs;
    BERTH_TRY(const auto word, make_streams(command, in, out, err, theirs));
    BERTH_TRY(const int image, keeper_image());
    const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    if (!self) return fail_errno("opening our own pidfd");
    sys::StepList list;
    const auto parent = list.borrow(self.get());
    list.new_session();
    list.death_signal(keeper::kEndAll, parent);
    if (const auto soft = sys::former_open_files()) list.soft_limit(RLIMIT_NOFILE, *soft);
    int number = 0;
    for (const int fd : {theirs.in.get(), theirs.out.get(), theirs.err.get(), talk.second.get()})
        list.dup(list.borrow(fd), number++);
    list.close_on_exec_from(number);
    list.say("starting the parent of the command");
    std::vector<std::string> words{"o", std::to_string(word | keeper::kOneShotGather),
                                   std::to_string(::getuid()), std::to_string(::getgid()), command.cwd};
    add_words(words, command);
    list.exec(list.borrow(image), words, command.env);
    BERTH_TRY(auto launched, sys::launch(list, {.low_numbers = number}));
    Attended made(sys::Child::own(launched.pid, std::move(launched.pidfd)));
    made.bare_ = true;
    made.in = std::move(in);
    made.out = std::move(out);
    made.err = std::move(err);
    made.report_ = std::move(talk.first);
    theirs = {};
    talk.second.reset();
    return begun(std::move(made), command);
}

/// What it could not start is gone when this returns.
Result<Attended> Attended::begun(Attended made, const AttendedCommand& command)
{
    auto started = made.await_start(command.terminal.has_value(), command);
    if (started) return made;
    made.kill();
    (void)made.finish();
    return std::unexpected(std::move(started).error());
}

ExitStatus Attended::finish()
{
    std::optional<ExitStatus> told;
    while (report_ && !told) {
        pollfd look{.fd = report_.get(), .events = POLLIN, .revents = 0};
        if (!init_ || ::poll(&look, 1, 0) <= 0) {
            // Nothing yet, or nothing any more: what there is to tell was told before init ended.
            if (init_) (void)init_->wait();
            if (::poll(&look, 1, 0) <= 0) break;
        }
        const auto message = sys::receive_message(report_.get(), Bytes{sizeof(keeper::Report)}, 1);
        if (!message || message->bytes.size() != sizeof(keeper::Report)) break;
        keeper::Report report{};
        std::memcpy(&report, message->bytes.data(), sizeof report);
        if (report.kind == keeper::ReportKind::Ended) told = ExitStatus::from_wait(report.status);
    }
    report_.reset();
    const auto ended = init_->wait();
    if (limits_) limits_->remove();
    limits_.reset();
    if (prepared_) prepared_->protects.give_up();
    refused_ = prepared_ && prepared_->supervision && prepared_->supervision->refused() > 0;
    prepared_.reset();
    if (told) return *told;
    if (!ended) return ExitStatus::unknown();
    // Init killed without a word took the command with it; what it exited with by itself says nothing about
    // the command.
    return ended->signal() ? *ended : ExitStatus::unknown();
}

void Attended::signal(int signo) const { (void)init_->signal(signo); }

void Attended::kill() const { signal(bare_ ? keeper::kEndAll : SIGKILL); }

} // namespace berth::local
