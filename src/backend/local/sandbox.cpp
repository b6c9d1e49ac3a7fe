#include "backend/local/sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "backend/local/environment.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/snapshot_base.hpp"
#include "backend/local/stop_start.hpp"
#include "backend/local/uppers.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::local {

namespace {

constexpr int kDyingMs = 1000;

/// The directory of an instance, locked until its keeper is recorded: whoever finds it unlocked and
/// without a record may remove it.
Result<UniqueFd> make_directory(const StateDir& state, const std::string& native, Recorded recorded)
{
    const std::string path = "sandbox/" + native;
    if (::mkdirat(state.fd(), path.c_str(), 0700) != 0) return fail_errno("creating sandbox {}", native);
    ScopeExit undo([&] { ::unlinkat(state.fd(), path.c_str(), AT_REMOVEDIR); });
    // Somebody may have removed it just now.
    auto directory = lock_instance(state, native);
    if (!directory && directory.error().code == Code::NotFound)
        return fail(Code::Unavailable, "sandbox {} was removed while it was made", native);
    if (!directory) return directory;
    if (recorded == Recorded::Parked) BERTH_CHECK(mark_parked(directory->get()));
    undo.dismiss();
    if (::mkdirat(directory->get(), "exec", 0700) != 0) {
        auto failed = fail_errno("creating the logs of {}", native);
        (void)discard(state, native);
        return failed;
    }
    return directory;
}

/// What the memory file system and the launcher of a throw-away sandbox hold, and nothing holds here.
Status refuse_unheld(const policy::Limits& limits, bool in_memory)
{
    if (limits.disk && !in_memory)
        return fail(Code::Unsupported,
                    "disk limit {}: a kept sandbox writes to the file system of the state directory, which "
                    "is not limited; berth run holds it",
                    show(*limits.disk));
    if (limits.wall_time)
        return fail(Code::Unsupported,
                    "wall time {}: nobody ends a kept sandbox that soon; berth run holds it, a lifetime or "
                    "the timeout of a command may do",
                    show(*limits.wall_time));
    return {};
}

} // namespace

Result<Sandbox::Made> Sandbox::make(const StateDir& state, const SandboxSpec& spec, const Options& options,
                                    Recorded recorded)
{
    if (!is_id(spec.id, "sbx_")) return fail(Code::Invalid, "'{}' is not the id of a sandbox", spec.id);
    BERTH_CHECK(refuse_unheld(spec.policy.limits, options.storage == Storage::Memory));
    const std::string native = native_name(spec.id, options.labels.generation);
    // Until its record names them, only this lock keeps the collector from the layers.
    BERTH_TRY(const auto layers, options.from ? lock_layers(state, Use::Shared) : Result<UniqueFd>());
    Instance instance{.spec = spec, .labels = options.labels};
    std::optional<LayerManifest> manifest;
    if (options.from && options.from->kind == snapshot_kind::kLayer) {
        BERTH_TRY(manifest, read_manifest(options.from->directory));
        instance.stack = manifest->stack;
        BERTH_CHECK(check_stack(state, instance.stack));
    }
    std::optional<RootLayers> base;
    if (options.from) {
        BERTH_TRY(base, base_of(state, spec, *options.from, manifest, options.progress));
    }
    BERTH_TRY(auto grounds, prepare_kept(state, spec,
                                         {.pools = options.pools,
                                          .progress = options.progress,
                                          .groups = options.groups,
                                          .known = base ? &*base : nullptr}));

    if (manifest) BERTH_CHECK(check_template(*manifest, spec.root, grounds.prepared->plan.layers));
    BERTH_TRY(auto directory, make_directory(state, native, recorded));
    ScopeExit undo([&] { (void)discard(state, native); });
    hooks::kill_point("sandbox recorded");
    instance.in_memory = options.storage == Storage::Memory;
    instance.synced = system_clock().now();
    if (!instance.in_memory) BERTH_CHECK(make_uppers(state, directory.get(), instance.stack, spec));
    BERTH_TRY(auto booted,
              boot(state, native, directory.get(), instance, std::move(grounds), recorded, options.spawner));
    undo.dismiss();
    return Made{.native = native,
                .directory = std::move(directory),
                .instance = std::move(instance),
                .booted = std::move(booted)};
}

Result<Sandbox> Sandbox::create(const StateDir& state, const SandboxSpec& spec, const Options& options)
{
    BERTH_TRY(auto made, make(state, spec, options, Recorded::No));
    ::flock(made.directory.get(), LOCK_UN);
    hooks::kill_point("sandbox made");
    Sandbox out(std::move(made.native), std::move(made.directory), std::move(made.booted));
    out.spawner_ = options.spawner;
    return out;
}

Sandbox::Sandbox(Sandbox&&) noexcept = default;
Sandbox::~Sandbox() { drop_ahead(); }

bool Sandbox::alive() const
{
    pollfd ends[2] = {{.fd = pidfd_.get(), .events = POLLIN, .revents = 0},
                      {.fd = keeper_.socket(), .events = 0, .revents = 0}};
    if (::poll(&ends[0], 2, 0) == 0) return true;
    // It hangs up before it is dead; one that hung up on us alone must be called again all the same.
    if (ends[0].revents == 0) ::poll(&ends[0], 1, kDyingMs);
    (void)keeper_lives(pidfd_.get());
    return false;
}

Status Sandbox::destroy()
{
    const StateDir& state = *prepared_->plan.state;
    spares_.clear();
    // What we know of it is true only as long as the keeper that we know lives.
    auto locked = lock_instance(state, native_);
    const bool taken_away = !locked && locked.error().code == Code::NotFound;
    if (!locked && !taken_away) return std::unexpected(std::move(locked).error());
    if (taken_away && alive()) BERTH_CHECK(end_keeper(pidfd_.get()));
    if (!alive()) {
        if (locked) locked->reset();
        return destroy_instance(state, native_);
    }
    // The frozen of v1 do not die, and the keeper's own end waits for theirs.
    if (const auto frozen = paused(); frozen && frozen->now) (void)group_->execs().kill_all();
    if (auto ended = end_keeper(pidfd_.get()); !ended)
        return std::unexpected(std::move(ended).error().while_doing("destroying " + native_));
    hooks::kill_point("keeper killed");
    if (group_) {
        const auto places = group_->places();
        group_.reset();
        BERTH_CHECK(sys::KeptGroup::remove(places));
    }
    return discard(state, native_);
}

Result<UniqueFd> Sandbox::open_of_keeper(const char* what, int flags) const
{
    UniqueFd fd(::open(fmt::format("/proc/{}/{}", keeper_pid_, what).c_str(), flags | O_CLOEXEC));
    const int error = errno;
    // One that is being killed loses its memory first, and the kernel then denies its links.
    if (pollfd end{.fd = pidfd_.get(), .events = POLLIN, .revents = 0}; !fd) ::poll(&end, 1, kDyingMs);
    // It has had the number all the time if it has it still.
    if (!alive()) return fail(Code::Unavailable, "the keeper of {} is gone", id());
    if (!fd) return fail_with(error, "opening the {} of {}", what, id());
    return fd;
}

Result<sys::SandboxFiles> Sandbox::files(const std::string& user) const
{
    const auto& identity = prepared_->identity;
    Account account = prepared_->user;
    if (!user.empty()) {
        BERTH_TRY(account, asked_account(user, prepared_->plan.layers, identity));
    }
    BERTH_TRY(auto lock, lock_files(directory_.get(), Use::Shared));
    BERTH_TRY(auto root, open_of_keeper("root", O_RDONLY | O_DIRECTORY));
    sys::FileCredentials credentials;
    if (identity.mode == IdMode::Own) {
        credentials.uid = ::geteuid();
        credentials.gid = ::getegid();
    } else {
        credentials.uid = identity.outside(account.uid);
        credentials.gid = identity.outside(account.gid);
    }
    BERTH_TRY(auto files, sys::SandboxFiles::open(std::move(root), credentials));
    files.hold(std::move(lock));
    return files;
}

} // namespace berth::local
