#include "server/codex/sandbox_place.hpp"

#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "core/exec_programs.hpp"
#include "protocol/codex/path_uri.hpp"
#include "protocol/jsonrpc/message.hpp"
#include "server/codex/sandbox_run.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kRemembered = 1024; ///< directories; a client may name any number

/// A rule that cannot be held, or something that has nothing to do with one.
std::unexpected<RpcError> not_started(const Error& error, bool narrowed)
{
    const bool policy =
        (error.code == Code::Denied || error.code == Code::Unsupported) && error.sys.value() == 0;
    if (policy && narrowed) return start_failed(error);
    return refuse(jsonrpc::kInternalError, error.line());
}

Outcome<std::shared_ptr<Place>> opened(Result<std::shared_ptr<Place>> place)
{
    if (place) return *std::move(place);
    return refuse(jsonrpc::kInternalError, place.error().line());
}

} // namespace

SandboxPlace::SandboxPlace(SandboxGround ground, Backend& backend, SandboxRecord record, std::string key)
    : ground_(std::move(ground)), backend_(backend), record_(std::move(record)),
      handle_(Lifecycle::handle(record_)), key_(std::move(key))
{
}

Task<Result<std::shared_ptr<Place>>> SandboxPlace::enter(SandboxGround ground, std::string id)
{
    BERTH_CO_TRY(auto used, co_await ground.lifecycle.use(std::move(id)));
    BERTH_CO_TRY(auto* const where, co_await ground.lifecycle.backend(used.record.backend));
    auto place =
        std::make_shared<SandboxPlace>(std::move(ground), *where, std::move(used.record), std::string{});
    co_await place->look_around();
    co_return place;
}

Task<Result<std::shared_ptr<Place>>> SandboxPlace::make(SandboxGround ground, AcquireRequest request)
{
    BERTH_CO_TRY(request.key, ground.traces->begin_sandbox());
    const std::string key = request.key;
    BERTH_CO_TRY(auto* const where, co_await ground.lifecycle.backend(request.backend));
    auto made = co_await ground.lifecycle.acquire(std::move(request));
    if (!made) {
        ground.traces->end_sandbox(key);
        co_return std::unexpected(std::move(made).error());
    }
    auto place = std::make_shared<SandboxPlace>(std::move(ground), *where, std::move(made->record), key);
    co_await place->look_around();
    co_return place;
}

/// What is told of it, found out once.
Task<void> SandboxPlace::look_around()
{
    Looker looker(around());
    const auto there = [&](std::string path) -> Task<bool> {
        const auto seen = co_await looker.look(std::move(path));
        co_return seen && !seen->missing;
    };
    json::Object shell;
    const bool bash = co_await there("/bin/bash");
    shell["name"] = bash ? "bash" : "sh";
    shell["path"] = bash ? "/bin/bash" : "/bin/sh";
    json::Object capabilities;
    capabilities["sandboxedFileStreaming"] = true;
    capabilities["fsWatchMissing"] = backend_.capabilities().can(Operation::Watch);
    const auto& spec = record_.spec;
    const std::string home = spec.user == "root" ? "/root" : "/home/" + spec.user;
    std::string cwd = spec.workdir;
    for (const auto& mount : spec.mounts)
        if (cwd.empty() && mount.workspace) cwd = mount.target;
    const bool has_home = co_await there(home);
    if (has_home) info_["userHomeDir"] = path_uri(home);
    if (cwd.empty() && has_home) cwd = home;
    if (cwd.starts_with('/')) info_["cwd"] = path_uri(cwd);
    info_["shell"] = std::move(shell);
    json::Array temporary;
    const auto own = spec.env.find("TMPDIR");
    const bool given = own != spec.env.end() && own->second.starts_with('/');
    if (given) temporary.emplace_back(path_uri(own->second));
    info_["temporaryDirectories"] = std::move(temporary);
    info_["tempDir"] = path_uri(given ? own->second : "/tmp");
    info_["capabilities"] = std::move(capabilities);
    info_["platformOs"] = "linux";
}

Task<Result<Narrowed>> SandboxPlace::narrow(std::optional<Intent> intent, std::string cwd)
{
    if (!key_.empty()) {
        std::vector<std::string> wanted = intent ? intent->workspace_roots : std::vector<std::string>{};
        if (!cwd.empty()) wanted.push_back(cwd);
        co_await make_missing(wanted);
    }
    co_return co_await narrow_to(around(), std::move(intent), std::move(cwd));
}

/// The client speaks of directories of its own machine; in a sandbox that was made for it they are empty.
/// What cannot be made is missing, and whoever needs it is told so.
Task<void> SandboxPlace::make_missing(const std::vector<std::string>& directories)
{
    Looker looker(around());
    for (const auto& directory : directories) {
        // Once: one that a command removes afterwards is gone, as it would be on the client's machine.
        if (there_.contains(directory)) continue;
        const auto seen = co_await looker.look(directory);
        if (!seen) continue;
        if (seen->missing && directory != "/") co_await make_here(directory);
        if (there_.size() < kRemembered) there_.insert(directory);
    }
}

Task<void> SandboxPlace::make_here(const std::string& directory)
{
    if (co_await backend_.make_dir(handle_, {.path = directory, .user = {}}, MakeParents::Yes)) co_return;
    ExecSpec spec;
    spec.id = make_exec_id(system_clock());
    spec.argv = {"/bin/sh", "-c",      R"(mkdir -p -- "$1" && chown -- "$2:" "$1")",
                 "berth",   directory, record_.spec.user};
    spec.cwd = "/";
    spec.user = "root";
    if (!co_await backend_.exec(handle_, spec)) co_return;
    (void)co_await backend_.follow(handle_, spec, {});
}

Task<Outcome<Started>> SandboxPlace::start(StartParams params)
{
    const auto self = shared_from_this();
    if (auto refused = refuse_unheld(params)) co_return std::unexpected(*std::move(refused));
    std::optional<GivenName> name;
    const bool named = params.arg0 && *params.arg0 != params.argv.front();
    if (named && !takes_programs(backend_.name()))
        co_return refuse(
            jsonrpc::kInvalidParams,
            fmt::format("arg0: backend {} cannot call a program by another name", backend_.name()));
    const bool asked = params.sandbox.has_value();
    auto rules = co_await narrow(params.sandbox, params.cwd);
    if (!rules) co_return not_started(rules.error(), asked);
    SandboxRun::Exec exec{.backend = backend_, .sandbox = handle_, .spec = {}, .closed = {}};
    ExecSpec& spec = exec.spec;
    spec.id = make_exec_id(system_clock());
    spec.argv = params.argv;
    spec.env = make_environment(record_.spec.env, params);
    spec.cwd = params.cwd;
    if (params.tty)
        spec.terminal = TerminalSize{};
    else if (params.pipe_stdin)
        spec.input = ExecSpec::Stdin::Open;
    spec.policy = rules->policy;
    const std::string id = spec.id;
    if (named) name.emplace(id, *params.arg0);
    const auto held = rules->held;
    exec.closed = [self, id, held](ExitStatus status) -> Task<void> {
        // Whoever started it lets go of it: the backend may hold something until somebody has asked for its
        // end.
        (void)co_await self->backend_.wait(self->handle_, id, system_clock().steady());
        const auto noted = co_await self->ground_.lifecycle.finish_exec(self->record_, id, status);
        if (!noted) log::debug("an end was not recorded", {{"exec", id}, {"why", noted.error().line()}});
        co_await self->release(held);
        self->ground_.traces->end_exec(id);
    };
    Status begun = ground_.traces->begin_exec(record_.id(), id);
    if (begun) begun = co_await ground_.traces->hold(record_.id(), held);
    if (begun) begun = co_await ground_.lifecycle.exec(record_, spec, {.first = {}, .followed = true});
    if (!begun) {
        co_await release(held);
        ground_.traces->end_exec(id);
        co_return not_started(begun.error(), asked);
    }
    const auto closed = exec.closed;
    auto made = SandboxRun::follow(std::move(exec), ground_.loop);
    if (!made) {
        (void)co_await backend_.kill(handle_, id);
        co_await closed(ExitStatus::unknown());
        co_return not_started(made.error(), asked);
    }
    for (const auto& note : rules->notes)
        log::info("an intent was bound", {{"process", printable(params.process_id, 80)}, {"note", note}});
    log::info("process/start", {{"process", printable(params.process_id, 80)},
                                {"thread", printable(params.thread_id, 80)},
                                {"call", printable(params.call_id, 80)},
                                {"in", record_.id()},
                                {"exec", id},
                                {"narrower", rules->policy ? "yes" : "no"}});
    co_return Started{.command = *std::move(made), .confined = true};
}

Task<void> SandboxPlace::release(std::vector<std::string> names)
{
    for (auto& name : ground_.traces->release(record_.id(), names))
        co_await ground_.traces->remove_place(backend_, handle_, std::move(name));
}

Task<void> SandboxPlace::leave()
{
    const auto self = shared_from_this();
    if (key_.empty()) co_return;
    const auto gone = co_await ground_.lifecycle.destroy(record_.id());
    if (gone)
        ground_.traces->end_sandbox(key_);
    else
        log::warn("the sandbox of a session was not removed",
                  {{"sandbox", record_.id()}, {"why", gone.error().line()}});
}

PlaceMaker enter_sandbox(SandboxGround ground, std::string id)
{
    return [ground, id]() -> Task<Outcome<std::shared_ptr<Place>>> {
        co_return opened(co_await SandboxPlace::enter(ground, id));
    };
}

PlaceMaker make_sandboxes(SandboxGround ground, AcquireRequest request)
{
    return [ground, request]() -> Task<Outcome<std::shared_ptr<Place>>> {
        co_return opened(co_await SandboxPlace::make(ground, request));
    };
}

} // namespace berth::codex
