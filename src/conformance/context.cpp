#include "conformance/context.hpp"

#include <thread>

#include "base/ids.hpp"

namespace berth::conformance {

namespace {

constexpr auto kPatience = 30s;
constexpr auto kInterval = 20ms;

} // namespace

Status exited(const Ran& ran, int code)
{
    if (ran.outcome.status.code() == code) return {};
    return fail(Code::Internal, "the command ended with {}, not exit code {}; it said '{}' and '{}'",
                to_string(ran.outcome.status), code, ran.out.substr(0, 200), ran.err.substr(0, 200));
}

Context::~Context()
{
    for (const auto& one : made_) {
        if (place_.stuck()) return;
        (void)await(backend().destroy(one)); // what stays is told at the end of the run
    }
}

Result<SandboxHandle> Context::create(CreateRequest request)
{
    place_.remember(request.spec.id);
    BERTH_TRY(auto made, step("creating a sandbox", await(backend().create(std::move(request)))));
    made_.push_back(made);
    return made;
}

void Context::remember(const SandboxHandle& sandbox)
{
    place_.remember(sandbox.sandbox);
    made_.push_back(sandbox);
}

Result<std::string> Context::dir()
{
    BERTH_TRY(const auto sandbox, shared());
    BERTH_TRY(const auto home, place_.home());
    const std::string path = fmt::format("{}/{}", home, place_.unused());
    BERTH_CHECK(step("making " + path, await(backend().make_dir(sandbox, {.path = path}, MakeParents::No))));
    return path;
}

Result<std::string> Context::at_home(std::string_view name)
{
    BERTH_TRY(const auto home, place_.any_home());
    return fmt::format("{}/{}", home, name);
}

ExecSpec Context::command(std::vector<std::string> argv)
{
    ExecSpec out;
    out.id = make_exec_id(system_clock());
    out.argv = std::move(argv);
    return out;
}

Status Context::start(const SandboxHandle& sandbox, const ExecSpec& exec)
{
    return step("starting a command", await(backend().exec(sandbox, exec)));
}

Result<Ran> Context::follow(Backend& by, const SandboxHandle& sandbox, const ExecSpec& exec,
                            std::string input)
{
    Ran ran;
    RunStreams streams;
    streams.input = std::move(input);
    streams.on_event = [&](const ExecEvent& event) {
        (event.kind == ExecEvent::Kind::Stderr ? ran.err : ran.out) += event.bytes;
        ran.events.push_back(event);
    };
    BERTH_TRY(ran.outcome, step("following a command", await(by.follow(sandbox, exec, std::move(streams)))));
    return ran;
}

Result<Ran> Context::run(const SandboxHandle& sandbox, const ExecSpec& exec, std::string input)
{
    ExecSpec bounded = exec;
    if (!bounded.timeout) bounded.timeout = kPatience;
    BERTH_CHECK(start(sandbox, bounded));
    return follow(backend(), sandbox, bounded, std::move(input));
}

Result<Ran> Context::sh(const std::string& script)
{
    BERTH_TRY(const auto sandbox, shared());
    return run(sandbox, shell(script));
}

Result<std::string> Context::output(const SandboxHandle& sandbox, const std::string& script)
{
    BERTH_TRY(auto ran, run(sandbox, shell(script)));
    BERTH_CHECK(exited(ran, 0));
    return std::move(ran.out);
}

Result<std::string> Context::read_until(const SandboxHandle& sandbox, const std::string& exec,
                                        std::string_view text, std::uint64_t& from)
{
    std::string out;
    const auto until = in(kPatience);
    while (out.find(text) == std::string::npos) {
        if (system_clock().steady() >= until)
            return fail(Code::DeadlineExceeded, "'{}' did not come; there is '{}'", text, out.substr(0, 400));
        BERTH_TRY(const auto some, await(backend().read_events(sandbox, exec, from, until)));
        for (const auto& event : some) {
            out += event.bytes;
            from = event.sequence + 1;
            if (event.kind == ExecEvent::Kind::Closed && out.find(text) == std::string::npos)
                return fail(Code::Internal, "the command ended without saying '{}': '{}'", text,
                            out.substr(0, 400));
        }
    }
    return out;
}

Result<ExitStatus> Context::ended(const SandboxHandle& sandbox, const std::string& exec)
{
    BERTH_TRY(const auto end, await(backend().wait(sandbox, exec, in(kPatience))));
    if (!end) return fail(Code::DeadlineExceeded, "the command did not end within {} s", kPatience.count());
    return end->status;
}

Result<std::vector<ExecEvent>> Context::events(Backend& by, const SandboxHandle& sandbox,
                                               const std::string& exec, std::uint64_t from)
{
    std::vector<ExecEvent> all;
    const auto until = in(kPatience);
    while (all.empty() || all.back().kind != ExecEvent::Kind::Closed) {
        if (system_clock().steady() >= until)
            return fail(Code::DeadlineExceeded, "the log of a command is not closed after {} events",
                        all.size());
        BERTH_TRY(auto some, await(by.read_events(sandbox, exec, from, until)));
        for (auto& event : some) {
            from = event.sequence + 1;
            all.push_back(std::move(event));
        }
    }
    return all;
}

Status Context::eventually(std::string_view what, const std::function<Result<bool>()>& holds)
{
    const auto until = in(kPatience);
    for (;;) {
        BERTH_TRY(const bool now, holds());
        if (now) return {};
        if (system_clock().steady() >= until)
            return fail(Code::DeadlineExceeded, "{}: not within {} s", what, kPatience.count());
        std::this_thread::sleep_for(kInterval);
    }
}

Result<std::string> Context::read(const SandboxHandle& sandbox, const std::string& path)
{
    return step("reading " + path, await(backend().read_file(sandbox, {.path = path}, 64_MiB)));
}

Status Context::write(const SandboxHandle& sandbox, const std::string& path, std::string bytes,
                      std::optional<unsigned> mode)
{
    return step("writing " + path,
                await(backend().write_file(sandbox, {.path = path}, std::move(bytes), mode)));
}

Status Context::skip(std::string why)
{
    skipped_ = std::move(why);
    return fail(Code::Unsupported, "skipped: {}", skipped_);
}

Status Context::not_offered(std::string what)
{
    offers_no_ = std::move(what);
    return {};
}

} // namespace berth::conformance
