// The local backend as every other part of berth sees it: coroutines over local::Sandbox.

#include "backend/local/local_backend.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "backend/local/group_pool.hpp"
#include "backend/local/holdings.hpp"
#include "backend/local/instance.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/look.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/stop_start.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::local {

namespace {

constexpr int kTries = 5;

Result<Capabilities> probe(const StateDir& state)
{
    Capabilities out;
    BERTH_TRY(const auto identity, make_identity(state, state.path()));
    const auto groups = sys::CgroupTree::open();
    out.holds = hold(identity, RootLayers{}, availability_of(groups));
    out.operations = {Operation::Pty,   Operation::ExecPolicy, Operation::Stop,   Operation::Snapshot,
                      Operation::Ports, Operation::Watch,      Operation::Archive};
    out.snapshots = {std::string(snapshot_kind::kLayer)};
    out.restores = {std::string(snapshot_kind::kLayer), std::string(snapshot_kind::kRootTar)};
    if (groups.of(sys::Controller::Freezer).available()) out.operations.insert(Operation::Pause);
    if (identity.mode != IdMode::Own) out.operations.insert(Operation::Users);
    return out;
}

/// What the directory of that name says it was asked to be; NotFound when there is none, or it was never
/// finished.
Result<SandboxSpec> recorded_spec(const StateDir& state, const std::string& native)
{
    BERTH_TRY(const auto directory, open_instance(state, native));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    return std::move(instance.spec);
}

} // namespace

Result<std::unique_ptr<Backend>> LocalBackend::open(const BackendOptions& options)
{
    if (options.pool == nullptr) return fail(Code::Invalid, "backend local needs a pool for blocking work");
    BERTH_TRY(auto state, StateDir::open(options.state_path));
    BERTH_TRY(auto capabilities, probe(state));
    return std::unique_ptr<Backend>(
        new LocalBackend(std::move(state), *options.pool, std::move(capabilities)));
}

/// Makes it in a place of the map that nobody else works with. Nothing: somebody else is making it too.
Result<bool> LocalBackend::make_at(Place& place, const CreateRequest& request, const std::string& native)
{
    const auto compare = [&](const SandboxSpec& found) -> Result<bool> {
        if (found == request.spec) return true;
        return fail(Code::Conflict, "sandbox {} exists with another specification", native);
    };
    if (place.sandbox && place.sandbox->alive()) return compare(place.sandbox->spec());
    place.sandbox.reset();
    const auto found = recorded_spec(state_, native);
    if (found) return compare(*found);
    if (found.error().code != Code::NotFound) return std::unexpected(found.error());
    if (auto parked = take_parked(native)) {
        if (auto claimed = claim(*std::move(parked), request)) {
            place.sandbox.emplace(*std::move(claimed));
            return true;
        }
    }
    // Whatever lies there without a record was never finished, and nothing ever ran in it. Its maker, if
    // he lives, has its lock.
    BERTH_TRY(const bool removed, remove_unfinished(state_, native));
    if (!removed) return false;
    auto made = Sandbox::create(state_, request.spec, options_of(request));
    // A failure of our own leaves no directory: one that is there is another maker's, who may not have
    // written his record yet.
    if (!made && made.error().sys.value() == EEXIST &&
        ::faccessat(state_.fd(), ("sandbox/" + native).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    if (!made) return std::unexpected(std::move(made).error().while_doing("creating " + native));
    place.sandbox.emplace(*std::move(made));
    return true;
}

Result<SandboxHandle> LocalBackend::make(const CreateRequest& request)
{
    const std::string& id = request.spec.id;
    if (!is_id(id, "sbx_")) return fail(Code::Invalid, "'{}' is not the id of a sandbox", printable(id, 60));
    if (request.from &&
        std::ranges::find(capabilities_.restores, request.from->kind) == capabilities_.restores.end())
        return refuse_kind("start from", request.from->kind, capabilities_.restores);
    const std::string native = native_name(id, request.labels.generation);
    for (int tries = 0; tries < kTries; ++tries) {
        const auto place = held_.place(native);
        // Two that ask for one instance at once: the second waits here for what the first has made.
        const std::scoped_lock lock(place->mutex);
        if (place->retired) continue;
        const auto made = make_at(*place, request, native);
        if (!place->sandbox) held_.retire(native, *place);
        if (!made) return std::unexpected(made.error());
        if (*made && place->sandbox) place->sandbox->rest();
        if (*made) return SandboxHandle{.sandbox = id, .native = native};
    }
    return fail(Code::Unavailable, "sandbox {} is being made by somebody else", native);
}

Status LocalBackend::remove(const std::string& native)
{
    BERTH_CHECK(check_native(native));
    Status gone;
    if (auto parked = take_parked(native)) {
        gone = std::move(*parked).destroy();
    } else if (const auto place = held_.find(native)) {
        const std::scoped_lock lock(place->mutex);
        if (place->sandbox) gone = place->sandbox->destroy();
        if (gone) held_.retire(native, *place);
    } else {
        gone = destroy_instance(state_, native);
    }
    if (!gone) return std::unexpected(std::move(gone).error().while_doing("destroying " + native));
    // Its keeper was the last to hold what stands for protected names in a workspace.
    (void)ProtectedNames::sweep(state_.fd());
    return {};
}

Task<Result<SandboxHandle>> LocalBackend::create(CreateRequest request)
{
    co_return co_await pool_.call([&] { return make(request); });
}

Task<Status> LocalBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return remove(sandbox.native); });
}

Task<Result<std::vector<Found>>> LocalBackend::scan()
{
    co_return co_await pool_.call([&] { return look_at_all(state_); });
}

Task<Result<Found>> LocalBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Result<Found> {
        BERTH_CHECK(check_native(sandbox.native));
        return look_at(state_, sandbox.native);
    });
}

Task<Status> LocalBackend::stop(SandboxHandle sandbox, std::chrono::milliseconds grace)
{
    co_return co_await pool_.call([&]() -> Status {
        BERTH_CHECK(stop_instance(state_, sandbox.native, grace));
        (void)ProtectedNames::sweep(state_.fd());
        return {};
    });
}

Task<Result<Started>> LocalBackend::start(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return start_instance(state_, sandbox.native); });
}

} // namespace berth::local
