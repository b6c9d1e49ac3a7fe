// The docker backend as every other part of berth sees it: coroutines over docker::Sandbox and the functions
// of life.hpp.

#include "backend/docker/docker_backend.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "backend/docker/adopt.hpp"
#include "backend/docker/attach.hpp"
#include "backend/docker/docker_backend_with.hpp"
#include "backend/docker/exec_place.hpp"
#include "backend/docker/far_backend.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/stats.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

Result<std::unique_ptr<Backend>> DockerBackend::open(const BackendOptions& options)
{
    if (options.pool == nullptr) return fail(Code::Invalid, "backend docker needs a pool for blocking work");
    BERTH_TRY(auto dirs, InstanceDirs::open(options.state_path));
    auto engine = std::make_unique<Engine>(find_engine(engine_environment()));
    // Only what comes through loopback is asked where it is: a forwarded port leads elsewhere. One that does
    // not answer tells so by the first operation.
    if (!engine->here().value_or(true))
        return std::unique_ptr<Backend>(new FarBackend(std::move(dirs), *options.pool, std::move(engine)));
    return std::unique_ptr<Backend>(new DockerBackend(std::move(dirs), *options.pool, std::move(engine)));
}

DockerBackend::DockerBackend(InstanceDirs dirs, BlockingPool& pool, std::unique_ptr<Engine> engine)
    : KeptBackend(pool), dirs_(std::move(dirs)), engine_(std::move(engine))
{
}

/// Nobody waits for the engine but who asks first, and one that does not answer is not asked again at once.
std::optional<EngineFacts> DockerBackend::facts() const
{
    constexpr std::chrono::seconds patience{5};
    {
        const std::scoped_lock lock(mutex_);
        const auto now = system_clock().steady();
        if (facts_ || now < ask_again_) return facts_;
        ask_again_ = now + patience;
    }
    const auto told = ask_facts(*engine_);
    const std::scoped_lock lock(mutex_);
    if (told) facts_ = *told;
    return facts_;
}

Capabilities DockerBackend::capabilities() const
{
    Capabilities out;
    out.operations = {Operation::Pty,   Operation::Users, Operation::Stop,   Operation::Snapshot,
                      Operation::Ports, Operation::Watch, Operation::Archive};
    out.snapshots = {std::string(kImageTar)};
    out.restores = {std::string(kImageTar), std::string(snapshot_kind::kRootTar)};
    if (::geteuid() == 0) {
        out.operations.insert(Operation::Pause);
        out.operations.insert(Operation::Attach);
        if (can_wall()) out.operations.insert(Operation::ExecPolicy);
    }
    // Whoever makes something hears from the engine, or why it cannot be asked.
    out.holds = hold(facts().value_or(
        EngineFacts{.memory = true, .pids = true, .cpus = true, .walls = can_wall(), .asked = false}));
    return out;
}

Task<Result<SandboxHandle>> DockerBackend::create(CreateRequest request)
{
    co_return co_await pool_.call([&] { return make_instance(where(), request); });
}

Task<Status> DockerBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return destroy_instance(where(), sandbox.native); });
}

Task<Result<std::vector<Found>>> DockerBackend::scan()
{
    co_return co_await pool_.call([&] { return look_at_all(where()); });
}

Task<Result<Found>> DockerBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return look_at(where(), sandbox.native); });
}

Task<Status> DockerBackend::stop(SandboxHandle sandbox, std::chrono::milliseconds grace)
{
    co_return co_await pool_.call([&] { return stop_instance(where(), sandbox.native, grace); });
}

Task<Result<Started>> DockerBackend::start(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return start_instance(where(), sandbox.native); });
}

Task<Status> DockerBackend::pause(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [](Sandbox& s) { return s.pause(); });
}

Task<Status> DockerBackend::resume(SandboxHandle sandbox)
{
    // Somebody may have had the engine pause it, and the keeper with it.
    const auto wake = [&] { return unpause_instance(where(), sandbox.native); };
    if (auto awake = co_await pool_.call(wake); !awake) co_return awake;
    co_return co_await with(sandbox, [](Sandbox& s) { return s.resume(); });
}

Task<Result<SnapshotTaken>> DockerBackend::snapshot(SandboxHandle sandbox, SnapshotRequest request)
{
    co_return co_await pool_.call([&] { return snapshot_of(where(), sandbox.native, request); });
}

Task<Status> DockerBackend::drop_snapshot(SnapshotSource snapshot)
{
    co_return co_await pool_.call([&] { return drop_snapshot_image(where(), snapshot.id); });
}

Task<Result<SandboxHandle>> DockerBackend::attach(std::string native)
{
    co_return co_await pool_.call([&] { return attach_container(where(), native); });
}

Task<Result<std::optional<SandboxHandle>>> DockerBackend::adopt(CreateRequest request)
{
    co_return co_await pool_.call([&] { return adopt_container(where(), request); });
}

Task<Status> DockerBackend::release(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return release_container(where(), sandbox.native); });
}

Task<Result<Borrowed>> DockerBackend::borrowed(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return tell_borrowed(where(), sandbox.native); });
}

Task<Result<std::string>> DockerBackend::runs_as(SandboxHandle sandbox)
{
    const auto ask = [](Sandbox& s) -> Result<std::string> {
        BERTH_TRY(const auto user, s.account({}));
        return describe(user);
    };
    co_return co_await with(sandbox, ask);
}

Task<Result<Usage>> DockerBackend::usage(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Result<Usage> {
        BERTH_TRY(const auto directory, dirs_.open(sandbox.native, 0));
        BERTH_TRY(const auto instance, read_instance(directory.get()));
        return ask_usage(*engine_, instance.container);
    });
}

Task<Result<std::string>> DockerBackend::workspace(SandboxHandle sandbox)
{
    const auto ask = [](Sandbox& s) -> Result<std::string> {
        BERTH_TRY(const auto user, s.account({}));
        return s.workspace(user);
    };
    co_return co_await with(sandbox, ask);
}

Task<Result<ImageDefaults>> DockerBackend::image_defaults(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return defaults_of(dirs_, sandbox.native); });
}

Task<Result<std::vector<SandboxHandle>>> DockerBackend::changes(SteadyTime until)
{
    co_return co_await pool_.call([&] { return changes_.next(where(), until); });
}

Task<Status> DockerBackend::read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                                         ByteSink sink)
{
    if (!options.mounts) {
        const auto judge = [&] { return check_volumes(where(), sandbox.native, directory.path); };
        BERTH_CO_CHECK(co_await pool_.call(judge));
    }
    co_return co_await KeptBackend::read_archive(std::move(sandbox), std::move(directory), std::move(options),
                                                 std::move(sink));
}

Task<Result<Collected>> DockerBackend::collect(std::string, bool dry_run)
{
    co_return co_await pool_.call([&] { return collect_images(where(), dry_run); });
}

Task<Result<sys::SandboxFiles>> DockerBackend::files_of(SandboxHandle sandbox, std::string user)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.files(user); });
}

Task<Result<sys::SandboxFiles>> DockerBackend::files_to_watch(SandboxHandle sandbox, std::string user,
                                                              UniqueFd& keeper)
{
    const auto open = [&](Sandbox& s) -> Result<sys::SandboxFiles> {
        keeper.reset(::fcntl(s.keeper_descriptor(), F_DUPFD_CLOEXEC, 0));
        if (!keeper) return fail_errno("holding the keeper of {}", s.id());
        return s.files(user);
    };
    co_return co_await with(sandbox, open);
}

Task<Result<keeping::Trees>> DockerBackend::trees_of(SandboxHandle sandbox, std::string user)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.trees(user); });
}

Task<Result<UniqueFd>> DockerBackend::dial_by_keeper(SandboxHandle sandbox, std::uint16_t port,
                                                     int ip_version)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.keeper().dial(port, ip_version); });
}

} // namespace berth::docker
