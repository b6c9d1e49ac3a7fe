#include "backend/local/parked.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "backend/local/environment.hpp"
#include "backend/local/host_files.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/snapshot_base.hpp"
#include "backend/local/stop_start.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "core/admit.hpp"
#include "core/parking.hpp"
#include "keeping/native.hpp"
#include "keeping/pause.hpp"
#include "sys/host_name.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

/// For all together: a killed maker's lock ends with the last process that has its descriptors.
constexpr auto kDying = 100ms;

/// Log files and a group for the command that somebody who claims it runs at once.
constexpr std::size_t kExecsAhead = 1;

constexpr const char* kLookedAt[] = {"bin/sh",
                                     "bin/bash",
                                     "usr/bin/env",
                                     "usr/bin/true",
                                     "lib64/ld-linux-x86-64.so.2",
                                     "lib/ld-linux-aarch64.so.1",
                                     "lib/x86_64-linux-gnu/libc.so.6",
                                     "lib/x86_64-linux-gnu/libtinfo.so.6",
                                     "lib/aarch64-linux-gnu/libc.so.6",
                                     "lib64/libc.so.6",
                                     "etc/ld.so.cache",
                                     "etc/passwd",
                                     "etc/nsswitch.conf",
                                     "dev/null",
                                     "proc/self",
                                     "tmp",
                                     "home/user"};

/// Where the root would come from if it were made now: the host's programs, or the file that a template is
/// named after, may have changed since.
Result<RootLayers> layers_now(const StateDir& state, const SandboxSpec& spec,
                              const std::optional<SnapshotSource>& from)
{
    if (from) {
        BERTH_TRY(const auto manifest, read_manifest(from->directory));
        BERTH_TRY(auto base, base_of(state, spec, *from, manifest, {}));
        if (base) return *std::move(base);
    }
    return resolve_template(state, spec.root, {});
}

} // namespace

Result<Parked> Parked::make(const StateDir& state, const SandboxSpec& spec, const Sandbox::Options& options)
{
    if (!shape_of(spec))
        return fail(Code::Unsupported, "a sandbox that shows parts of the host is not parked");
    if (options.from && options.from->kind != snapshot_kind::kLayer)
        return fail(Code::Unsupported, "a sandbox from a {} is not parked", options.from->kind);
    BERTH_TRY(auto made, Sandbox::make(state, spec, options, Recorded::Parked));
    UniqueFd maker = std::move(made.booted.maker);
    Parked out(Sandbox(std::move(made.native), std::move(made.directory), std::move(made.booted)),
               std::move(made.instance), std::move(maker), options.from ? options.from->id : std::string{});
    out.sandbox_.spawner_ = options.spawner;
    if (auto ready = out.warm_up(); !ready) {
        (void)std::move(out).destroy();
        return std::unexpected(std::move(ready).error());
    }
    hooks::kill_point("sandbox parked");
    return out;
}

/// All that the first command would find out for everybody after it: files that are made on first use, and
/// where the usual things are in a root that nobody has looked at yet.
Status Parked::warm_up()
{
    BERTH_CHECK(sandbox_.make_ahead(kExecsAhead));
    BERTH_TRY([[maybe_unused]] const auto turn,
              Turn::take(sandbox_.directory_.get(), Turn::Kind::Start)); // its lock's file
    BERTH_TRY(const auto root, sandbox_.open_of_keeper("root", O_PATH | O_DIRECTORY));
    for (const char* path : kLookedAt) {
        open_how how{};
        how.flags = O_PATH | O_CLOEXEC; // nothing is opened, whatever a template has there
        how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
        const UniqueFd seen(static_cast<int>(::syscall(SYS_openat2, root.get(), path, &how, sizeof how)));
    }
    {
        const bool own = sandbox_.prepared_->identity.mode == IdMode::Own;
        BERTH_TRY(const auto files, sandbox_.files(own ? "" : "root"));
        BERTH_TRY(host_files_, own_host_files(files, sandbox_.prepared_->spec));
    }
    sandbox_.rest();
    return {};
}

Status Parked::check_fit(const SandboxSpec& spec, const Sandbox::Options& options) const
{
    const auto& have = *sandbox_.prepared_;
    const std::string snapshot = options.from ? options.from->id : std::string{};
    const auto shape = shape_of(spec);
    if (spec.id != have.spec.id || !shape || *shape != *shape_of(have.spec) || snapshot != snapshot_)
        return fail(Code::Conflict, "the parked {} is of another shape", have.spec.id);
    if (!sandbox_.alive()) return fail(Code::Unavailable, "the keeper of {} is gone", have.spec.id);
    BERTH_TRY(const auto now, layers_now(*have.plan.state, spec, options.from));
    const auto& then = have.plan.layers;
    if (now.root != then.root || now.identity != then.identity || now.usr_mask != then.usr_mask ||
        now.more_roots != then.more_roots)
        return fail(Code::Conflict, "the template of {} has changed since it was parked", have.spec.id);
    return {};
}

/// Only its execs are in its groups, and none has run yet: a limit that is set now has always held.
Status Parked::set_limits(const SandboxSpec& spec)
{
    auto& have = *sandbox_.prepared_;
    if (spec.policy.limits == have.spec.policy.limits) return {};
    if (spec.limit_mode != LimitMode::Enforce || !sandbox_.group_)
        return fail(Code::Conflict, "the limits of {} cannot be changed", have.spec.id);
    const auto tree = sys::CgroupTree::open();
    std::vector<std::string> unheld;
    BERTH_CHECK(admit(spec, hold(have.identity, have.plan.layers, availability_of(tree)), unheld));
    BERTH_TRY(auto group,
              tree.widen_kept(sandbox_.native_, instance_.groups, group_limits(spec.policy.limits, tree)));
    instance_.groups = group.places();
    sandbox_.group_.emplace(std::move(group));
    return {};
}

Status Parked::become(const SandboxSpec& spec, const Sandbox::Options& options)
{
    BERTH_CHECK(validate(spec));
    BERTH_CHECK(check_fit(spec, options));
    hooks::kill_point("claim: it fits");
    BERTH_CHECK(set_limits(spec));
    auto& have = *sandbox_.prepared_;
    if (const auto name = host_name(spec); name != host_name(have.spec)) {
        const bool own = have.identity.mode == IdMode::Own;
        BERTH_CHECK(sys::set_host_name(sandbox_.pidfd_.get(), name,
                                       own ? sys::Through::ItsUserNamespace : sys::Through::Ours));
        if (host_files_) {
            BERTH_TRY(const auto files, sandbox_.files(own ? "" : "root"));
            BERTH_CHECK(rename_host_files(files, spec));
        }
    }
    hooks::kill_point("claim: named");
    have.spec = spec;
    instance_.spec = spec;
    instance_.labels = options.labels;
    instance_.synced = system_clock().now();
    // Killed from here on, we leave it to the keeper to see whether it was recorded.
    if (::write(maker_.get(), "c", 1) != 1) return fail_errno("telling the keeper of {}", spec.id);
    hooks::kill_point("claim: begun");
    // From here on it is an instance, and that of its sandbox alone.
    const int directory = sandbox_.directory_.get();
    BERTH_CHECK(write_instance(directory, instance_));
    hooks::kill_point("claim: recorded");
    maker_.reset();
    hooks::kill_point("claim: let go");
    ::flock(directory, LOCK_UN);
    hooks::kill_point("sandbox claimed");
    return {};
}

Result<Sandbox> Parked::claim(const SandboxSpec& spec, const Sandbox::Options& options) &&
{
    if (auto done = become(spec, options); !done) {
        (void)std::move(*this).destroy();
        return std::unexpected(std::move(done).error());
    }
    return std::move(sandbox_);
}

Status Parked::destroy() &&
{
    // Destroying takes the lock for itself.
    ::flock(sandbox_.directory_.get(), LOCK_UN);
    return sandbox_.destroy();
}

Result<std::vector<std::string>> remove_left_parked(const StateDir& state, bool dry_run)
{
    const UniqueFd all(::openat(state.fd(), "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!all) return fail_errno("opening {}", state.sandboxes());
    BERTH_TRY(const auto names, list_names(all.get()));
    std::vector<std::string> out;
    const auto begun = std::chrono::steady_clock::now();
    for (const auto& native : names) {
        if (!is_native(native)) continue;
        {
            const auto directory = open_instance(state, native);
            if (!directory || !is_parked(directory->get())) continue;
            const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(
                std::chrono::steady_clock::now() - begun);
            if (!lock_within(directory->get(), Use::Shared, std::max(kDying - spent, 0ms))) continue;
        }
        if (!dry_run) {
            BERTH_TRY(const bool removed, remove_unfinished(state, native));
            if (!removed) continue; // it has become somebody's
        }
        out.push_back("parked " + native);
    }
    return out;
}

} // namespace berth::local
