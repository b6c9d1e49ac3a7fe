#include "backend/docker/far_backend.hpp"

#include "backend/docker/exec_place.hpp"
#include "backend/docker/far_exec.hpp"
#include "backend/docker/far_files.hpp"
#include "backend/docker/far_life.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/stats.hpp"
#include "core/exec_programs.hpp"
#include "keeping/native.hpp"
#include "keeping/pause.hpp"
#include "keeping/places.hpp"
#include "scripted/archive.hpp"
#include "scripted/files.hpp"

namespace berth::docker {

FarBackend::FarBackend(InstanceDirs dirs, BlockingPool& pool, std::unique_ptr<Engine> engine)
    : dirs_(std::move(dirs)), pool_(pool), engine_(std::move(engine)),
      execs_(
          pool, [this](const std::string& native) { return dirs_.open(native, 0); },
          [this](keeping::RelayedWish wish) -> Result<keeping::RelayedExecs::ExecPtr> {
              BERTH_TRY(const auto instance, find(wish.native));
              auto one = std::make_shared<FarExec>(*engine_, instance.container, std::move(wish));
              one->go_on();
              return one;
          })
{
}

Result<Instance> FarBackend::find(const std::string& native) const
{
    BERTH_CHECK(keeping::check_native(native));
    BERTH_TRY(const auto directory, dirs_.open(native, 0));
    auto instance = read_instance(directory.get());
    if (!instance && instance.error().code == Code::NotFound)
        return fail(Code::NotFound, "sandbox {} was never finished", native);
    if (!instance) return instance;
    BERTH_CHECK(same_engine(*engine_, *instance));
    return instance;
}

template <class F>
auto FarBackend::with(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const Instance&>>
{
    co_return co_await pool_.call([&]() -> std::invoke_result_t<F, const Instance&> {
        BERTH_TRY(const auto instance, find(sandbox.native));
        return work(instance);
    });
}

template <class F>
auto FarBackend::with_files(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, scripted::Files&>>
{
    const auto open = [&](const Instance& instance) -> std::invoke_result_t<F, scripted::Files&> {
        EngineHands hands(*engine_, instance.container, dirs_.fd(),
                          [&](const std::string& user) { return far_account(*engine_, instance, user); });
        scripted::Files files(hands);
        return work(files);
    };
    co_return co_await with(sandbox, open);
}

template <class F>
auto FarBackend::here(SandboxHandle sandbox, F work) -> Task<std::invoke_result_t<F, const std::string&>>
{
    co_return co_await pool_.call([&]() -> std::invoke_result_t<F, const std::string&> {
        BERTH_CHECK(keeping::check_native(sandbox.native));
        return work(sandbox.native);
    });
}

/// As DockerBackend::facts().
Capabilities FarBackend::capabilities() const
{
    Capabilities out;
    out.operations = {Operation::Pty, Operation::Users, Operation::Stop, Operation::Snapshot,
                      Operation::Archive};
    out.snapshots = {std::string(kImageTar)};
    out.restores = {std::string(kImageTar), std::string(snapshot_kind::kRootTar)};
    constexpr std::chrono::seconds patience{5};
    std::unique_lock lock(mutex_);
    if (const auto now = system_clock().steady(); !facts_ && now >= ask_again_) {
        ask_again_ = now + patience;
        lock.unlock();
        const auto told = ask_facts(*engine_);
        lock.lock();
        if (told) facts_ = *told;
    }
    out.holds = hold(
        far_facts(facts_.value_or(EngineFacts{.memory = true, .pids = true, .cpus = true, .asked = false})));
    return out;
}

Task<Result<SandboxHandle>> FarBackend::create(CreateRequest request)
{
    co_return co_await pool_.call([&] { return make_far(where(), request); });
}

Task<Status> FarBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return destroy_far(where(), execs_, sandbox.native); });
}

Task<Result<std::vector<Found>>> FarBackend::scan()
{
    co_return co_await pool_.call([&] { return look_at_all(where(), look_far); });
}

Task<Result<Found>> FarBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return look_far(where(), sandbox.native); });
}

Task<Status> FarBackend::stop(SandboxHandle sandbox, std::chrono::milliseconds grace)
{
    co_return co_await pool_.call([&] { return stop_far(where(), execs_, sandbox.native, grace); });
}

Task<Result<Started>> FarBackend::start(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return start_far(where(), sandbox.native); });
}

Task<Result<SnapshotTaken>> FarBackend::snapshot(SandboxHandle sandbox, SnapshotRequest request)
{
    co_return co_await pool_.call([&] { return snapshot_of(where(), sandbox.native, request); });
}

Task<Status> FarBackend::drop_snapshot(SnapshotSource snapshot)
{
    co_return co_await pool_.call([&] { return drop_snapshot_image(where(), snapshot.id); });
}

Task<Result<Usage>> FarBackend::usage(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& one) { return ask_usage(*engine_, one.container); });
}

Task<Result<std::string>> FarBackend::workspace(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::string> {
        BERTH_TRY(const auto user, far_account(*engine_, instance, {}));
        return keeping::workspace_of(instance.spec, instance.defaults.workdir, user);
    });
}

Task<Result<ImageDefaults>> FarBackend::image_defaults(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return defaults_of(dirs_, sandbox.native); });
}

Task<Result<std::string>> FarBackend::runs_as(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::string> {
        BERTH_TRY(const auto user, far_account(*engine_, instance, {}));
        return describe(user);
    });
}

Task<Result<std::vector<SandboxHandle>>> FarBackend::changes(SteadyTime until)
{
    co_return co_await pool_.call([&] { return changes_.next(where(), until); });
}

Task<Result<Collected>> FarBackend::collect(std::string, bool dry_run)
{
    co_return co_await pool_.call([&] { return collect_images(where(), dry_run); });
}

Task<Status> FarBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Status {
        BERTH_CHECK(validate(spec));
        if (spec.policy || program_of(spec.id) >= 0) return unsupported(Operation::ExecPolicy, name());
        BERTH_TRY(const auto user, far_account(*engine_, instance, spec.user));
        BERTH_TRY(const auto directory, dirs_.open(sandbox.native, 0));
        // No command is on its way into a container that is held still for a snapshot.
        BERTH_TRY(const auto turn, keeping::Turn::take(directory.get(), keeping::Turn::Kind::Start));
        const auto start = [&](keeping::RelayedWish wish) -> Result<keeping::RelayedExecs::ExecPtr> {
            std::string cwd = spec.cwd.empty() ? workdir_of(instance, user) : spec.cwd;
            // An account that nobody logs in to need not have its home.
            if (spec.cwd.empty() && !spec.user.empty() && cwd == user.home &&
                !is_there(*engine_, instance.container, cwd).value_or(true))
                cwd = "/";
            auto one = std::make_shared<FarExec>(*engine_, instance.container, std::move(wish));
            BERTH_CHECK(one->start(spec, user, environment_of(instance, spec, user), cwd));
            return one;
        };
        return execs_.begin(sandbox.native, spec, start);
    });
}

Task<Result<std::vector<ExecEvent>>> FarBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                             std::uint64_t from, SteadyTime until)
{
    BERTH_CO_CHECK(keeping::check_native(sandbox.native));
    co_return co_await execs_.read_events(sandbox.native, std::move(exec), from, until);
}

Task<Result<std::optional<Ended>>> FarBackend::wait(SandboxHandle sandbox, std::string exec, SteadyTime until)
{
    BERTH_CO_CHECK(keeping::check_native(sandbox.native));
    co_return co_await execs_.wait(sandbox.native, std::move(exec), until);
}

Task<Status> FarBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, execs_.take(native, exec));
        return running->signal(signo);
    });
}

Task<Status> FarBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.kill(native, exec); });
}

Task<Result<std::size_t>> FarBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                  std::uint64_t write_id, std::string bytes)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Result<std::size_t> {
        BERTH_TRY(const auto running, execs_.take_input(native, exec));
        return running->write(write_id, bytes);
    });
}

Task<Status> FarBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, execs_.take_input(native, exec));
        return running->close_input();
    });
}

Task<Status> FarBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await here(sandbox,
                            [&](const std::string& native) { return execs_.resize(native, exec, size); });
}

Task<Result<std::vector<ExecInfo>>> FarBackend::execs(SandboxHandle sandbox)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.list(native); });
}

Task<Status> FarBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.settle(native, exec); });
}

Task<Result<int>> FarBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.pid(native, exec); });
}

Task<Result<std::string>> FarBackend::read_file(SandboxHandle sandbox, FilePath file, Bytes limit)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) -> Result<std::string> {
        std::string out;
        const ByteSink keep = [&](std::string_view bytes) -> Status {
            out += bytes;
            return {};
        };
        BERTH_CHECK(files.read(file, limit, keep));
        return out;
    });
}

Task<Status> FarBackend::write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                    std::optional<unsigned> mode)
{
    co_return co_await with_files(sandbox,
                                  [&](scripted::Files& files) { return files.write(file, bytes, mode); });
}

Task<Result<std::vector<FileEntry>>> FarBackend::list_files(SandboxHandle sandbox, FilePath directory)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) { return files.list(directory); });
}

Task<Result<FileEntry>> FarBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) { return files.stat(file); });
}

Task<Status> FarBackend::make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents)
{
    co_return co_await with_files(sandbox,
                                  [&](scripted::Files& files) { return files.make_dir(directory, parents); });
}

Task<Status> FarBackend::move_file(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) { return files.move(from, to); });
}

Task<Status> FarBackend::move_over(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) { return files.move_over(from, to); });
}

Task<Status> FarBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) { return files.remove(file, tree); });
}

Task<Result<UniqueFd>> FarBackend::open_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with_files(sandbox,
                                  [&](scripted::Files& files) { return files.read_aside(file, dirs_.fd()); });
}

Task<Status> FarBackend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    co_return co_await with_files(sandbox,
                                  [&](scripted::Files& files) { return files.fill(file, contents); });
}

Task<Status> FarBackend::read_archive(SandboxHandle sandbox, FilePath directory, ArchiveOptions options,
                                      ByteSink sink)
{
    if (!options.mounts) {
        const auto judge = [&] { return check_volumes(where(), sandbox.native, directory.path); };
        BERTH_CO_CHECK(co_await pool_.call(judge));
    }
    co_return co_await with_files(sandbox, [&](scripted::Files& files) {
        return scripted::read_tree(files, directory, options, sink);
    });
}

Task<Status> FarBackend::write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                                       ArchiveLimits limits)
{
    co_return co_await with_files(sandbox, [&](scripted::Files& files) {
        return scripted::write_tree(files, dirs_.fd(), directory, source, limits);
    });
}

} // namespace berth::docker
