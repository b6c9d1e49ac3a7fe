#include <unistd.h>

#include <algorithm>
#include <deque>

#include <CLI/CLI.hpp>
#include <boost/asio/this_coro.hpp>

#include "base/strings.hpp"
#include "cli/app.hpp"
#include "cli/event_json.hpp"
#include "cli/session.hpp"
#include "cli/shared_end.hpp"
#include "cli/verbs.hpp"
#include "core/exec_reader.hpp"
#include "lifecycle/told_end.hpp"

namespace berth::cli {

namespace {

using namespace std::chrono_literals;
using Kind = ExecEvent::Kind;

constexpr auto kReadAtOnce = 30s; // a wait of one read; the loop goes on

struct Options {
    Common common;
    std::string ref;
    std::string exec;
    std::string after;
    std::string tail;
    bool follow = false;
    bool only_out = false;
    bool only_err = false;
};

/// Writes events to our own streams, each stream to its own.
class Printer {
public:
    static Task<Result<Printer>> open(const Options& options)
    {
        const auto loop = co_await boost::asio::this_coro::executor;
        BERTH_CO_TRY(auto out, SharedEnd::open(loop, STDOUT_FILENO, SharedEnd::Use::Write));
        BERTH_CO_TRY(auto err, SharedEnd::open(loop, STDERR_FILENO, SharedEnd::Use::Write));
        co_return Printer(options, std::move(out), std::move(err));
    }

    /// False: nobody reads us any more.
    Task<bool> print(const ExecEvent& event, bool timed_out)
    {
        const bool err = event.kind == Kind::Stderr;
        const bool output = err || event.kind == Kind::Stdout || event.kind == Kind::Pty;
        if (output && (err ? options_.only_out : options_.only_err)) co_return true;
        if (options_.common.json) co_return co_await out_.write(event_line(event, timed_out));
        if (event.kind == Kind::Gap) say(missing_words(event));
        if (event.kind == Kind::Exit && options_.follow)
            ended_ = "ended: " + (timed_out ? told_end(event.status, true) : to_string(event.status));
        if (!output) co_return true;
        // The only stream that was asked for is data, whichever it is.
        co_return co_await (err && !options_.only_err ? err_ : out_).write(event.bytes);
    }

    [[nodiscard]] const std::string& ended() const { return ended_; }
    /// Why print() said false, where it was not that nobody reads.
    [[nodiscard]] Status written() const
    {
        for (const int error : {out_.error(), err_.error()})
            if (error != 0 && error != EPIPE)
                return fail(Code::Internal, "writing the output: {}", std::generic_category().message(error));
        return {};
    }
    /// Whether it is output that is asked for.
    [[nodiscard]] bool shows(const ExecEvent& event) const
    {
        if (event.kind == Kind::Stderr) return !options_.only_out;
        return (event.kind == Kind::Stdout || event.kind == Kind::Pty) && !options_.only_err;
    }

private:
    Printer(const Options& options, SharedEnd out, SharedEnd err)
        : options_(options), out_(std::move(out)), err_(std::move(err))
    {
    }
    const Options& options_;
    SharedEnd out_, err_;
    std::string ended_;
};

/// The last lines of what is there; what comes before them is dropped as it comes.
class Tail {
public:
    explicit Tail(std::size_t lines) : most_(lines) {}

    void add(ExecEvent event)
    {
        // A last line without an end is one, too: it begins behind the last newline.
        lines_ += newlines(event);
        held_.push_back(std::move(event));
        while (held_.size() > 1 && lines_ - newlines(held_.front()) > most_) {
            lines_ -= newlines(held_.front());
            held_.pop_front();
        }
    }

    [[nodiscard]] std::deque<ExecEvent> take() &&
    {
        const bool open = !held_.empty() && !held_.back().bytes.empty() && held_.back().bytes.back() != '\n';
        std::size_t drop = lines_ + (open ? 1 : 0);
        drop = drop > most_ ? drop - most_ : 0;
        while (drop > 0 && !held_.empty()) {
            auto& bytes = held_.front().bytes;
            const auto end = bytes.find('\n');
            if (end != std::string::npos) --drop;
            bytes.erase(0, end == std::string::npos ? end : end + 1);
            if (bytes.empty()) held_.pop_front();
        }
        return std::move(held_);
    }

private:
    static std::size_t newlines(const ExecEvent& event)
    {
        return static_cast<std::size_t>(std::ranges::count(event.bytes, '\n'));
    }
    std::size_t most_;
    std::size_t lines_ = 0;
    std::deque<ExecEvent> held_;
};

Task<Status> show_log(Lifecycle& lifecycle, const Options& o, std::uint64_t from,
                      std::optional<std::size_t> tail)
{
    const auto found = co_await lifecycle.find(o.ref);
    if (!found && found.error().code == Code::NotFound && o.ref.starts_with("exec_") && o.exec.empty())
        co_return fail(Code::NotFound, "{} is a command, no sandbox: write berth logs SANDBOX {}",
                       printable(o.ref, 60), printable(o.ref, 60));
    BERTH_CO_TRY(const auto record, found);
    BERTH_CO_TRY(const auto exec, co_await lifecycle.find_exec(record, o.exec));
    BERTH_CO_CHECK(has_log(exec));
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(record.backend));
    BERTH_CO_TRY(auto printer, co_await Printer::open(o));
    const auto print = [&](const ExecEvent& event) -> Task<bool> {
        const bool late =
            event.kind == Kind::Exit && co_await timed_out(lifecycle, record, exec.id, event.status);
        co_return co_await printer.print(event, late);
    };
    ExecReader reader(*backend, Lifecycle::handle(record), exec.id, from);
    if (tail) {
        Tail last(*tail);
        std::vector<ExecEvent> others; // how it ended
        while (!reader.closed()) {
            BERTH_CO_TRY(const auto events, co_await reader.next(system_clock().steady()));
            if (events.empty()) break;
            for (const auto& event : events) {
                if (printer.shows(event))
                    last.add(event);
                else if (event.kind == Kind::Exit || event.kind == Kind::Closed)
                    others.push_back(event);
            }
        }
        for (const auto& event : std::move(last).take())
            if (!co_await print(event)) co_return printer.written();
        for (const auto& event : others)
            if (!co_await print(event)) co_return printer.written();
    }
    while (!reader.closed()) {
        const auto now = system_clock().steady();
        BERTH_CO_TRY(const auto events, co_await reader.next(o.follow ? now + kReadAtOnce : now));
        for (const auto& event : events)
            if (!co_await print(event)) co_return printer.written();
        if (events.empty() && !o.follow) break;
    }
    if (!printer.ended().empty()) say(fmt::format("{} {}", exec.id, printer.ended()));
    co_return Status{};
}

Status run(const Options& o)
{
    std::uint64_t from = 0;
    if (!o.after.empty()) {
        BERTH_TRY(const auto after, parse_int(o.after, 0, 1ll << 52, "sequence number"));
        from = static_cast<std::uint64_t>(after) + 1;
    }
    std::optional<std::size_t> tail;
    if (!o.tail.empty()) {
        BERTH_TRY(const auto lines, parse_int(o.tail, 0, 1ll << 32, "number of lines"));
        tail = static_cast<std::size_t>(lines);
    }
    if (o.only_out && o.only_err)
        return fail(Code::Invalid, "--stdout and --stderr exclude each other: leave both out for both");
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Reads));
    return berth->run(show_log(berth->lifecycle(), o, from, tail));
}

} // namespace

int logs_verb(int argc, char** argv)
{
    CLI::App app(
        "Show what a command in a sandbox has printed, byte by byte, while it runs and afterwards.\n\n"
        "Example:\n"
        "  berth logs mybox --follow --tail 20\n",
        "berth logs");
    Options options;
    app.add_option("sandbox", options.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("exec", options.exec, "The exec: id or unique prefix (default the newest)")
        ->type_name("EXEC");
    app.add_flag("-f,--follow", options.follow, "Go on until the exec is over, and tell how it ended");
    app.add_option("--after", options.after, "Only what comes after this sequence number")->type_name("N");
    app.add_option("--tail", options.tail, "Begin with the last lines of what is there")->type_name("N");
    app.add_flag("--stdout", options.only_out, "Only what it wrote to stdout (or its terminal)");
    app.add_flag("--stderr", options.only_err, "Only what it wrote to stderr, to our stdout");
    add_common(app, options.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv)) return *done;
    const auto shown = run(options);
    return shown ? 0 : report(shown.error(), options.common);
}

} // namespace berth::cli
