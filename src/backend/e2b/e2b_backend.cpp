// The E2B backend as every other part of berth sees it: making, stopping and finding sandboxes.

#include "backend/e2b/e2b_backend.hpp"

#include <algorithm>
#include <csignal>
#include <thread>

#include "backend/e2b/command.hpp"
#include "backend/e2b/holdings.hpp"
#include "backend/e2b/labels.hpp"
#include "backend/e2b/snapshot.hpp"
#include "base/hooks.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "core/spec_json.hpp"
#include "keeping/native.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kEndPatience = 10s; // for our own streams to see that a sandbox has stopped
constexpr auto kPoll = 20ms;

Status check_id(std::string_view id)
{
    if (e2b::is_cloud_id(id)) return {};
    return fail(Code::Invalid, "'{}' is no id of E2B", printable(id, 60));
}

Found gone(const SandboxHandle& sandbox)
{
    Found out;
    out.sandbox = sandbox;
    out.health = Health::Gone;
    out.state = State::Lost;
    return out;
}

std::string fingerprint(const SandboxSpec& spec)
{
    return sha256_hex(json::dump(to_json(spec))).substr(0, 32);
}

/// Of several that were made in a race, all agree on the first.
const e2b::SandboxView& first_of(const std::vector<e2b::SandboxView>& all)
{
    return *std::ranges::min_element(all, [](const auto& a, const auto& b) {
        return a.started != b.started ? a.started < b.started : a.id < b.id;
    });
}

Status end_processes(Envd& envd, const Session& session, int signo)
{
    BERTH_TRY(const auto answer, envd.unary(session, "process.Process/List", "{}"));
    BERTH_TRY(const auto pids, e2b::read_pids(answer));
    for (const auto pid : pids) {
        e2b::ProcessCall call;
        call.process = pid;
        call.signal = signo;
        (void)envd.unary(session, "process.Process/SendSignal", e2b::process_request(call));
    }
    return {};
}

} // namespace

Result<std::unique_ptr<Backend>> E2bBackend::open(const BackendOptions& options)
{
    if (options.pool == nullptr) return fail(Code::Invalid, "backend e2b needs a pool for blocking work");
    return std::unique_ptr<Backend>(
        new E2bBackend(keeping::RemoteState(options.state_path, "e2b-client", check_id), *options.pool,
                       read_config(config_environment())));
}

E2bBackend::E2bBackend(keeping::RemoteState state, BlockingPool& pool, Result<Config> config)
    : state_(std::move(state)), pool_(pool)
{
    if (config)
        cloud_ = std::make_unique<Cloud>(*std::move(config));
    else
        unusable_ = std::unexpected(std::move(config).error());
}

/// Its thread looks at the rest: it goes first.
E2bBackend::~E2bBackend() { keep_alive_.reset(); }

Result<Cloud*> E2bBackend::cloud()
{
    if (!unusable_) return std::unexpected(unusable_.error());
    return cloud_.get();
}

Capabilities E2bBackend::capabilities() const
{
    Capabilities out;
    out.operations = {Operation::Pty,      Operation::Users, Operation::Stop,
                      Operation::Snapshot, Operation::Watch, Operation::Archive};
    out.snapshots = out.restores = {std::string(kSnapshot)};
    out.late_output = false; // the daemon's stream ends with the command
    out.holds = hold();
    return out;
}

Task<Result<SandboxHandle>> E2bBackend::create(CreateRequest request)
{
    co_return co_await pool_.call([&]() -> Result<SandboxHandle> {
        // What can never be is refused before anybody is asked.
        BERTH_CHECK(validate(request.spec));
        BERTH_CHECK(admit(request.spec));
        BERTH_TRY(auto* const cloud, this->cloud());
        return make(*cloud, request);
    });
}

Result<SandboxHandle> E2bBackend::make(Cloud& cloud, const CreateRequest& request)
{
    const auto& spec = request.spec;
    e2b::NewSandbox wish;
    wish.template_id = spec.root.kind == Template::Kind::Image ? spec.root.path : cloud.config().template_id;
    if (request.from) {
        BERTH_TRY(wish.template_id, snapshot_template(*request.from));
    }
    const Identity identity{.sandbox = spec.id,
                            .labels = request.labels,
                            .fingerprint = fingerprint(spec),
                            .user = spec.user,
                            .workdir = spec.workdir};
    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_CHECK(keeping::check_native(native));
    // The cloud gives no name away once: makers on this machine wait for each other, those on others are
    // found afterwards.
    BERTH_TRY(const auto making, state_.lock_making(native));
    const auto filter = filter_instance(spec.id, request.labels.generation);
    const auto found = [&]() -> Result<std::optional<e2b::SandboxView>> {
        BERTH_TRY(const auto all, cloud.api().list(filter));
        if (all.empty()) return std::optional<e2b::SandboxView>{};
        return first_of(all);
    };
    BERTH_TRY(const auto there, found());
    if (there) {
        const auto known = identity_of(there->metadata);
        if (!known || known->fingerprint != identity.fingerprint)
            return fail(Code::Conflict, "sandbox {} exists with another specification", native);
        return SandboxHandle{.sandbox = spec.id, .native = there->id};
    }
    if (!spec.hostname.empty())
        return fail(Code::Unsupported, "host name {}: E2B gives sandboxes their names",
                    printable(spec.hostname, 60));
    wish.metadata = metadata_of(identity);
    wish.env = spec.env;
    // Nobody knows when it is used next: time that runs out must not cost its files.
    wish.auto_pause = true;
    wish.allow_internet = spec.policy.network != policy::Network::Off;
    for (const auto& [name, value] : wish.env)
        if (printable_utf8(name) != name || printable_utf8(value) != value)
            return fail(Code::Invalid, "variable {} is no text, and E2B takes only that",
                        printable(name, 60));
    BERTH_TRY(auto made, cloud.api().create(wish));
    hooks::kill_point("e2b.create.made");
    made.metadata = wish.metadata;
    auto settled = settle_new(cloud, request, made);
    if (!settled) {
        (void)cloud.api().kill(made.id);
        cloud.forget(made.id);
        return std::unexpected(std::move(settled).error());
    }
    const auto again = found();
    if (again && *again && (*again)->id != made.id) {
        (void)cloud.api().kill(made.id);
        cloud.forget(made.id);
        return SandboxHandle{.sandbox = spec.id, .native = (*again)->id};
    }
    return SandboxHandle{.sandbox = spec.id, .native = made.id};
}

/// Its user is there, its working directory too, and of a snapshot's processes none.
Status E2bBackend::settle_new(Cloud& cloud, const CreateRequest& request, const e2b::SandboxView& made)
{
    const auto& spec = request.spec;
    BERTH_TRY(const auto session, cloud.remember(made));
    if (request.from) BERTH_CHECK(end_processes(cloud.envd(), session, SIGKILL));
    const bool usual = spec.user == "user" || spec.user == "root";
    if (usual && spec.workdir.empty()) return {};
    const auto run = [&](std::string script, std::string user) -> Status {
        const Command command{.script = std::move(script),
                              .arguments = {spec.workdir.empty() ? "/" : spec.workdir, spec.user},
                              .user = std::move(user),
                              .out = {}};
        BERTH_TRY(const auto end, run_command(cloud.envd(), session, command));
        if (!end.status.success()) return std::unexpected(error_of_words(end.err, "working directory"));
        return {};
    };
    auto there = run("d \"$1\"; [ -d \"$v\" ] || mkdir -p -- \"$v\"", spec.user);
    if (there || there.error().code != Code::Denied) return there;
    return run("d \"$2\"; u=$v; d \"$1\"; mkdir -p -- \"$v\" && chown -- \"$u\" \"$v\"", "root");
}

Task<Status> E2bBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Status {
        BERTH_TRY(auto* const cloud, this->cloud());
        const auto id = cloud->id_of(sandbox);
        if (!id && id.error().code == Code::NotFound) return {};
        if (!id) return std::unexpected(id.error());
        BERTH_CHECK(cloud->api().kill(*id));
        cloud->forget(*id);
        let_go(*id);
        return state_.remove_instance(*id);
    });
}

/// Nobody of this process waits for anything of it any more.
void E2bBackend::let_go(const std::string& id)
{
    std::vector<RunningPtr> running;
    std::vector<std::shared_ptr<ExecInput>> inputs;
    {
        const std::scoped_lock lock(mutex_);
        for (auto at = running_.begin(); at != running_.end();) {
            if (at->second->instance() != id) {
                ++at;
                continue;
            }
            if (const auto input = inputs_.find(at->first); input != inputs_.end()) {
                inputs.push_back(std::move(input->second));
                inputs_.erase(input);
            }
            running.push_back(std::move(at->second));
            at = running_.erase(at);
        }
    }
    // Their threads end here, without the lock.
}

Task<Result<std::vector<Found>>> E2bBackend::scan()
{
    co_return co_await pool_.call([&]() -> Result<std::vector<Found>> {
        // Who never used it has none: nobody's server is asked because a key for it is somewhere.
        if (!state_.used()) return std::vector<Found>{};
        if (!unusable_) return std::unexpected(unusable_.error());
        BERTH_TRY(const auto all, cloud_->api().list(filter_all()));
        std::vector<Found> out;
        for (const auto& view : all)
            if (identity_of(view.metadata)) out.push_back(found_of(view));
        return out;
    });
}

Task<Result<Found>> E2bBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Result<Found> {
        BERTH_TRY(auto* const cloud, this->cloud());
        const auto id = cloud->id_of(sandbox);
        if (!id && id.error().code == Code::NotFound) return gone(sandbox);
        if (!id) return std::unexpected(id.error());
        const auto view = cloud->api().get(*id);
        if (!view && view.error().code == Code::NotFound) return gone(sandbox);
        if (!view) return std::unexpected(view.error());
        auto found = found_of(*view);
        if (found.sandbox.sandbox.empty()) found.sandbox.sandbox = sandbox.sandbox;
        return found;
    });
}

Task<Status> E2bBackend::stop(SandboxHandle sandbox, std::chrono::milliseconds grace)
{
    co_return co_await with(
        sandbox, [&](Cloud& cloud, const std::string& id) -> Status { return stop_one(cloud, id, grace); });
}

/// A pause without memory ends every process; the grace before it is ours to give.
Status E2bBackend::stop_one(Cloud& cloud, const std::string& id, std::chrono::milliseconds grace)
{
    BERTH_TRY(const auto view, cloud.api().get(id));
    if (!view.paused && grace > 0ms) {
        const auto until = system_clock().steady() + grace;
        if (const auto session = cloud.session(id)) {
            auto& envd = cloud.envd();
            (void)end_processes(envd, *session, SIGTERM);
            while (system_clock().steady() < until) {
                const auto answer = envd.unary(*session, "process.Process/List", "{}");
                const auto pids = answer ? e2b::read_pids(*answer) : std::vector<std::uint32_t>{};
                if (!pids || pids->empty()) break;
                std::this_thread::sleep_for(kPoll);
            }
        }
    }
    if (!view.paused) BERTH_CHECK(cloud.api().pause(id, false));
    cloud.forget(id);
    std::vector<RunningPtr> ours;
    {
        const std::scoped_lock lock(mutex_);
        for (const auto& [exec, one] : running_)
            if (one->instance() == id) ours.push_back(one);
    }
    for (const auto& one : ours) one->wait_done(system_clock().steady() + kEndPatience);
    return {};
}

Task<Result<Started>> E2bBackend::start(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Result<Started> {
        BERTH_TRY(auto view, cloud.api().get(id));
        if (!view.paused) return Started{};
        BERTH_TRY(const auto fresh, cloud.api().connect(id));
        view.token = fresh.token;
        view.domain = fresh.domain;
        BERTH_TRY([[maybe_unused]] const auto session, cloud.remember(view));
        return Started{};
    });
}

Task<Result<SnapshotTaken>> E2bBackend::snapshot(SandboxHandle sandbox, SnapshotRequest request)
{
    co_return co_await with(
        sandbox, [&](Cloud& cloud, const std::string& id) { return take_snapshot(cloud, id, request); });
}

Task<Status> E2bBackend::drop_snapshot(SnapshotSource snapshot)
{
    co_return co_await pool_.call([&]() -> Status {
        BERTH_TRY(auto* const cloud, this->cloud());
        return remove_snapshot(*cloud, snapshot);
    });
}

Task<Status> E2bBackend::keep_alive(SandboxHandle sandbox, std::chrono::seconds time)
{
    co_return co_await with(sandbox, [&](Cloud& cloud, const std::string& id) -> Status {
        auto done = cloud.api().set_timeout(id, std::max(time, cloud.config().timeout));
        // A stopped one has no time that could run out.
        if (!done && done.error().code == Code::Conflict) return {};
        return done;
    });
}

} // namespace berth::e2b_client
