// The local backend as every other part of berth sees it: coroutines over local::Sandbox.

#include "backend/local/local_backend.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "backend/local/group_pool.hpp"
#include "backend/local/holdings.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kHealthPatience = 2s;

Status check_id(const std::string& id)
{
    if (is_id(id, "sbx_")) return {};
    return fail(Code::Invalid, "'{}' is not the id of a sandbox", printable(id, 60));
}

Result<UniqueFd> open_sandboxes(const StateDir& state)
{
    UniqueFd all(::openat(state.fd(), "sandbox", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!all) return fail_errno("opening {}", state.sandboxes());
    return all;
}

Result<Capabilities> probe(const StateDir& state)
{
    Capabilities out;
    BERTH_TRY(const auto identity, make_identity(state, state.path()));
    const auto groups = sys::CgroupTree::open();
    out.holds = hold(identity, RootLayers{}, availability_of(groups));
    out.operations = {Operation::Pty, Operation::ExecPolicy};
    if (groups.of(sys::Controller::Freezer).available()) out.operations.insert(Operation::Pause);
    if (identity.mode != IdMode::Own) out.operations.insert(Operation::Users);
    return out;
}

/// Refused or absent is the kernel's word that nobody listens; anything else may pass.
Health health_of(int sandboxes, const std::string& id)
{
    const UniqueFd directory(
        ::openat(sandboxes, id.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) return errno == ENOENT ? Health::Gone : Health::Unresponsive;
    if (being_made(directory.get())) return Health::Unresponsive;
    auto keeper = KeeperClient::connect(directory.get(), "sock", kHealthPatience);
    if (!keeper) {
        const int error = keeper.error().sys.value();
        return error == ECONNREFUSED || error == ENOENT ? Health::Gone : Health::Unresponsive;
    }
    return keeper->ping() ? Health::Healthy : Health::Unresponsive;
}

Found found_at(int sandboxes, const std::string& id)
{
    const Health health = health_of(sandboxes, id);
    const UniqueFd directory(
        ::openat(sandboxes, id.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    const Paused paused = directory && health != Health::Gone ? look_paused(directory.get()) : Paused{};
    const State alive = paused.now ? State::Paused : State::Running;
    return {.sandbox = {.sandbox = id, .native = id},
            .health = health,
            .state = health == Health::Gone ? State::Lost : alive,
            .labels = {},
            .paused = paused.in_all};
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

std::shared_ptr<LocalBackend::Held> LocalBackend::held(const std::string& id) const
{
    const std::scoped_lock lock(mutex_);
    const auto at = held_.find(id);
    return at == held_.end() ? nullptr : at->second;
}

bool LocalBackend::has_directory(const std::string& id) const
{
    struct stat st{};
    return ::fstatat(state_.fd(), ("sandbox/" + id).c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::shared_ptr<LocalBackend::Held>> LocalBackend::find(const SandboxHandle& handle)
{
    BERTH_CHECK(check_id(handle.sandbox));
    if (auto found = held(handle.sandbox)) return found;
    if (!has_directory(handle.sandbox)) return fail(Code::NotFound, "no sandbox {}", handle.sandbox);
    return adopt(handle.sandbox);
}

/// One that another process made, perhaps an earlier life of this one.
Result<std::shared_ptr<LocalBackend::Held>> LocalBackend::adopt(const std::string& id)
{
    BERTH_TRY(auto opened, Sandbox::open(state_, id));
    const std::scoped_lock lock(mutex_);
    auto& slot = held_[id];
    if (slot) return slot; // somebody was faster
    slot = std::make_shared<Held>();
    slot->spec = opened.spec();
    slot->sandbox.emplace(std::move(opened));
    return slot;
}

void LocalBackend::retire(const std::string& id, Held& held)
{
    held.retired = true;
    held.sandbox.reset();
    const std::scoped_lock lock(mutex_);
    held_.erase(id);
}

Result<SandboxHandle> LocalBackend::make(const SandboxSpec& spec)
{
    BERTH_CHECK(check_id(spec.id));
    for (;;) {
        std::shared_ptr<Held> place;
        {
            const std::scoped_lock lock(mutex_);
            auto& slot = held_[spec.id];
            if (!slot) slot = std::make_shared<Held>();
            place = slot;
        }
        // Two that ask for one id at once: the second waits here for what the first has made.
        const std::scoped_lock lock(place->mutex);
        if (place->retired) continue;
        if (!place->sandbox && has_directory(spec.id)) {
            auto opened = Sandbox::open(state_, spec.id);
            if (opened) {
                place->spec = opened->spec();
                place->sandbox.emplace(*std::move(opened));
            } else {
                // Gone or never finished: its files are not ours to throw away, so no second one is made.
                retire(spec.id, *place);
                return std::unexpected(std::move(opened).error().while_doing("finding " + spec.id));
            }
        }
        if (place->sandbox) {
            if (place->spec != spec)
                return fail(Code::Conflict, "sandbox {} exists with another specification", spec.id);
            return SandboxHandle{.sandbox = spec.id, .native = spec.id};
        }
        auto made = Sandbox::create(state_, spec, {});
        if (!made) {
            retire(spec.id, *place);
            return std::unexpected(std::move(made).error().while_doing("creating " + spec.id));
        }
        place->sandbox.emplace(*std::move(made));
        place->spec = spec;
        return SandboxHandle{.sandbox = spec.id, .native = spec.id};
    }
}

Status LocalBackend::remove(const std::string& id)
{
    BERTH_CHECK(check_id(id));
    auto place = held(id);
    if (!place && !has_directory(id)) return {};
    if (!place) {
        auto adopted = adopt(id);
        if (!adopted && adopted.error().code == Code::NotFound) return Sandbox::remove_dead(state_, id);
        if (!adopted) return std::unexpected(std::move(adopted).error());
        place = *std::move(adopted);
    }
    const std::scoped_lock lock(place->mutex);
    if (place->retired || !place->sandbox) return {};
    if (auto gone = place->sandbox->destroy(); !gone)
        return std::unexpected(std::move(gone).error().while_doing("destroying " + id));
    retire(id, *place);
    return {};
}

Result<std::vector<Found>> LocalBackend::look() const
{
    BERTH_TRY(const auto all, open_sandboxes(state_));
    BERTH_TRY(const auto names, list_names(all.get()));
    std::vector<Found> found;
    for (const auto& id : names)
        if (is_id(id, "sbx_")) found.push_back(found_at(all.get(), id));
    return found;
}

Task<Result<SandboxHandle>> LocalBackend::create(CreateRequest request)
{
    co_return co_await pool_.call([&] { return make(request.spec); });
}

Task<Status> LocalBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&] { return remove(sandbox.sandbox); });
}

Task<Result<std::vector<Found>>> LocalBackend::scan()
{
    co_return co_await pool_.call([&] { return look(); });
}

Task<Result<Found>> LocalBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Result<Found> {
        BERTH_CHECK(check_id(sandbox.native));
        BERTH_TRY(const auto all, open_sandboxes(state_));
        return found_at(all.get(), sandbox.native);
    });
}

} // namespace berth::local
