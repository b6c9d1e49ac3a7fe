#include "server/codex/sandbox_run.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "base/log.hpp"
#include "core/exec_reader.hpp"
#include "core/tells_refusals.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kRead = 15s;
constexpr auto kBreath = 20ms; ///< until a command that does not read is offered more
constexpr std::size_t kPiece = std::size_t{64} << 10;

using Descriptor = asio::posix::stream_descriptor;

struct Pipe {
    UniqueFd read, write;
};

Result<Pipe> make_pipe()
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("making a pipe");
    return Pipe{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

} // namespace

class SandboxRun::Pump : public std::enable_shared_from_this<Pump> {
public:
    Pump(Exec exec, asio::any_io_executor loop, UniqueFd ended)
        : exec_(std::move(exec)), loop_(std::move(loop)), ended_(std::move(ended))
    {
    }

    Task<void> read_log()
    {
        const auto self = shared_from_this();
        ExecReader reader(exec_.backend, exec_.sandbox, exec_.spec.id);
        while (!reader.closed()) {
            const auto events = co_await reader.next(system_clock().steady() + kRead);
            if (!events) {
                log::info("the log of an exec cannot be read",
                          {{"exec", exec_.spec.id}, {"why", events.error().line()}});
                break;
            }
            for (const auto& event : *events) co_await take(event);
        }
        tell_end();
        out.reset();
        err.reset();
        co_await exec_.closed(status_);
    }

    Task<void> feed()
    {
        const auto self = shared_from_this();
        std::string buffer(kPiece, '\0');
        std::uint64_t number = 0;
        for (;;) {
            const auto [error, n] = co_await in->async_read_some(asio::buffer(buffer), as_value);
            if (error) co_return;
            for (std::size_t at = 0; at < n && !over_;) {
                const auto taken = co_await exec_.backend.write_input(exec_.sandbox, exec_.spec.id, ++number,
                                                                      buffer.substr(at, n - at));
                if (!taken) co_return; // it reads nothing any more
                at += *taken;
                if (at == n) break;
                asio::steady_timer breath(loop_, kBreath);
                (void)co_await breath.async_wait(as_value);
            }
        }
    }

    void send(int signo)
    {
        if (over_) return;
        asio::co_spawn(
            loop_,
            [](std::shared_ptr<Pump> self, int number) -> Task<void> {
                auto& exec = self->exec_;
                const auto sent = number == SIGKILL
                                      ? co_await exec.backend.kill(exec.sandbox, exec.spec.id)
                                      : co_await exec.backend.signal(exec.sandbox, exec.spec.id, number);
                if (!sent) log::debug("a signal was not sent", {{"why", sent.error().line()}});
            }(shared_from_this(), signo),
            asio::detached);
    }

    [[nodiscard]] int ended() const noexcept { return ended_.get(); }
    [[nodiscard]] ExitStatus status() const noexcept { return status_; }
    [[nodiscard]] bool refused() const noexcept { return refused_; }
    [[nodiscard]] bool over() const noexcept { return over_; }

    std::optional<Descriptor> in, out, err; ///< our ends

private:
    Task<void> take(const ExecEvent& event)
    {
        using enum ExecEvent::Kind;
        switch (event.kind) {
        case Stdout:
        case Pty: co_await put(out, event.bytes); break;
        case Stderr: co_await put(err, event.bytes); break;
        case Gap: // the protocol has no word for it, so it is told where it is
            co_await put(out,
                         fmt::format("\n[berth: {} bytes of output are missing here]\n", event.gap_bytes));
            break;
        case Exit:
            status_ = event.status;
            if (auto* const counts = dynamic_cast<TellsRefusals*>(&exec_.backend))
                refused_ = co_await counts->exec_refused(exec_.sandbox, exec_.spec.id);
            tell_end();
            break;
        case Start:
        case Closed: break;
        }
    }

    static Task<void> put(std::optional<Descriptor>& to, const std::string& bytes)
    {
        if (to) (void)co_await asio::async_write(*to, asio::buffer(bytes), as_value);
    }

    void tell_end()
    {
        if (over_.exchange(true)) return;
        (void)::eventfd_write(ended_.get(), 1);
        boost::system::error_code ignored;
        if (in) in->close(ignored);
    }

    Exec exec_;
    asio::any_io_executor loop_;
    UniqueFd ended_;
    ExitStatus status_; ///< before over_ is set, as the next
    bool refused_ = false;
    std::atomic<bool> over_ = false;
};

Result<std::unique_ptr<SandboxRun>> SandboxRun::follow(Exec exec, asio::any_io_executor loop)
{
    UniqueFd ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ended) return fail_errno("making an event descriptor");
    const bool terminal = exec.spec.terminal.has_value();
    const bool input = terminal || exec.spec.input == ExecSpec::Stdin::Open;
    auto pump = std::make_shared<Pump>(std::move(exec), loop, std::move(ended));
    std::unique_ptr<SandboxRun> run(new SandboxRun(pump));
    BERTH_TRY(auto out, make_pipe());
    run->out = std::move(out.read);
    pump->out.emplace(loop, out.write.release());
    if (!terminal) {
        BERTH_TRY(auto err, make_pipe());
        run->err = std::move(err.read);
        pump->err.emplace(loop, err.write.release());
    }
    if (input) {
        BERTH_TRY(auto in, make_pipe());
        run->in = std::move(in.write);
        pump->in.emplace(loop, in.read.release());
    }
    const auto spawn = [&](Task<void> work) { asio::co_spawn(loop, std::move(work), asio::detached); };
    spawn(pump->read_log());
    if (input) spawn(pump->feed());
    return run;
}

SandboxRun::~SandboxRun()
{
    if (!pump_->over()) pump_->send(SIGKILL);
}

int SandboxRun::ended() const { return pump_->ended(); }
ExitStatus SandboxRun::finish() { return pump_->status(); }
bool SandboxRun::refused() const { return pump_->refused(); }
void SandboxRun::signal(int signo) { pump_->send(signo); }
void SandboxRun::kill() { pump_->send(SIGKILL); }

} // namespace berth::codex
