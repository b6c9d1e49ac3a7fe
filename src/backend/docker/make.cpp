// Making and removing an instance: directory, container, keeper, record, in this order, so that whatever dies
// on the way leaves something that destroying it takes away.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/docker/attach.hpp"
#include "backend/docker/await_keeper.hpp"
#include "backend/docker/frozen_root.hpp"
#include "backend/docker/life.hpp"
#include "backend/docker/mounts.hpp"
#include "backend/docker/own_container.hpp"
#include "backend/docker/sandbox.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/start_again.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"
#include "keeping/protect.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr const char* kMachineId = "machine-id"; ///< in the directory of an instance

/// A volume that nobody has used yet is the sandbox's user's to write to.
Status give_volumes(const SandboxSpec& spec, const keeping::Account& user)
{
    for (const auto& volume : spec.volumes) {
        const UniqueFd top(::open(volume.source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        struct stat st{};
        if (!top || ::fstat(top.get(), &st) != 0) return fail_errno("opening volume {}", volume.name);
        if (st.st_uid != ::geteuid() || st.st_uid == user.uid) continue;
        if (::fchown(top.get(), user.uid, user.gid) != 0)
            return fail_errno("giving volume {} away", volume.name);
    }
    return {};
}

/// What is made from one image or snapshot is not one machine.
Status name_machine(const Sandbox& sandbox)
{
    if (frozen_root(sandbox.spec()).frozen) return {}; // shown to it from outside
    BERTH_TRY(const auto files, sandbox.files("root"));
    const auto etc = files.stat("/etc");
    if (!etc || etc->kind != sys::FileKind::Directory) return {};
    return files.write("/etc/machine-id", random_hex(16) + "\n", {.mode = 0444});
}

/// Where commands start, made where the image does not have it.
Status make_workdir(const Sandbox& sandbox, const keeping::Account& user)
{
    const std::string path = sandbox.workdir(user);
    BERTH_TRY(const auto files, sandbox.files("root"));
    const auto there = files.stat(path);
    if (there || there.error().code != Code::NotFound || frozen_root(sandbox.spec()).frozen) return {};
    BERTH_CHECK(files.make_dir(path, 0755, sys::Parents::Make));
    BERTH_TRY(const auto made, files.run([&](int root) { return sys::resolve_in(root, path, O_DIRECTORY); }));
    if (::fchownat(made.get(), "", user.uid, user.gid, AT_EMPTY_PATH) != 0)
        return fail_errno("giving {} to its user", path);
    return {};
}

} // namespace

Result<SandboxHandle> make_instance(const Where& where, const CreateRequest& request)
{
    const SandboxSpec& spec = request.spec;
    if (!is_id(spec.id, "sbx_"))
        return fail(Code::Invalid, "'{}' is not the id of a sandbox", printable(spec.id, 60));
    BERTH_CHECK(validate(spec));
    BERTH_CHECK(check_restorable(request));
    BERTH_TRY(const bool here, where.engine.here());
    if (!here)
        return fail(Code::Unsupported,
                    "the engine at {} is not on this machine: its containers cannot be given a keeper",
                    where.engine.place().text());
    if (::geteuid() != 0)
        return fail(Code::Unsupported,
                    "backend docker reaches files and groups of a container through the kernel, which "
                    "needs root: run berth as root");
    BERTH_TRY(const auto facts, ask_facts(where.engine));
    if (facts.user_namespaces)
        return fail(Code::Unsupported,
                    "the engine maps the users of its containers (userns-remap), with which this "
                    "backend does not work yet");
    // A socket may be forwarded, or lead into a virtual machine: then its processes are not the kernel's
    // here.
    if (!facts.machine.empty())
        return fail(
            Code::Unsupported,
            "the engine behind {} runs on another machine ({}), or berth itself runs in a container: name "
            "that engine by tcp://HOST:PORT, through which it does what such an engine can",
            where.engine.place().text(), facts.machine);
    BERTH_CHECK(admit(spec, hold(facts)));
    BERTH_TRY(const auto pins, keeping::pin_mounts(spec));
    BERTH_CHECK(check_mounts(where, spec, pins));
    BERTH_TRY(const auto engine, where.engine.identity());
    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_TRY(const auto directory, where.dirs.make(native));
    BERTH_TRY(const auto made, find_made(where, directory.get(), request, native));
    if (made) return *made;

    ScopeExit undo([&] { (void)where.dirs.remove(native); });
    // Whatever is there without a record was never finished, and nothing ever ran in it.
    BERTH_CHECK(remove_own(where.engine, native, {}));
    BERTH_CHECK(where.dirs.furnish(directory.get()));
    hooks::kill_point("docker: directory made");
    // Until a container names the image, only this lock keeps a collector from it.
    BERTH_TRY(const auto images, lock_images(where.dirs, ImageUse::Load));
    auto found = request.from ? load_snapshot(where.engine, *request.from)
                              : ensure_image(where.engine, spec.root, request.progress);
    if (!found) return std::unexpected(std::move(found).error().while_doing("creating " + native));
    const SandboxSpec pinned = at_pins(spec, pins);
    ContainerWish wish{.spec = pinned,
                       .labels = request.labels,
                       .image = found->id,
                       .image_name = found->name,
                       .shown = where.dirs.path(native) + "/in",
                       .owner = ::geteuid(),
                       .machine_id = {}};
    if (frozen_root(spec).frozen) {
        BERTH_CHECK(replace_file_at(directory.get(), kMachineId, random_hex(16) + "\n", 0444));
        wish.machine_id = where.dirs.path(native) + "/" + kMachineId;
    }
    auto container = create_container(where.engine, native, wish);
    if (!container) return std::unexpected(std::move(container).error().while_doing("creating " + native));
    ScopeExit undo_container([&] { (void)remove_container(where.engine, *container); });
    hooks::kill_point("docker: container made");
    Instance instance{.spec = spec,
                      .labels = request.labels,
                      .pins = pins,
                      .container = *container,
                      .image = found->id,
                      .defaults = found->defaults,
                      .boot = boot_id(),
                      .engine = engine,
                      .finished = false};
    if (auto started = start_container(where.engine, *container); !started)
        return std::unexpected(std::move(started).error().while_doing("starting " + native));
    hooks::kill_point("docker: container started");
    BERTH_CHECK(await_keeper(directory.get(), where.engine, instance));
    BERTH_CHECK(write_instance(directory.get(), instance));
    hooks::kill_point("docker: keeper recorded");
    // An account that the image does not have is a refusal of the whole.
    BERTH_TRY(const auto sandbox, Sandbox::open(where.dirs, where.engine, native));
    BERTH_TRY(const auto user, sandbox.account({}));
    BERTH_CHECK(give_volumes(spec, user));
    BERTH_CHECK(name_machine(sandbox));
    BERTH_CHECK(make_workdir(sandbox, user));
    instance.finished = true;
    BERTH_CHECK(write_instance(directory.get(), instance));
    undo_container.dismiss();
    undo.dismiss();
    return SandboxHandle{.sandbox = spec.id, .native = native};
}

Status destroy_instance(const Where& where, const std::string& native)
{
    BERTH_CHECK(keeping::check_native(native));
    if (const auto there = where.dirs.open(native, 0))
        // Nor is one ours that was being adopted: there is another's work in it.
        if (const auto instance = read_instance(there->get());
            instance && (!instance->owned || (!instance->finished && !instance->inside.empty())))
            return release_container(where, native);
    auto directory = where.dirs.lock(native);
    if (!directory && directory.error().code == Code::NotFound) {
        // An engine that nobody can ask has nothing of ours that this state knows of.
        auto gone = remove_own(where.engine, native, {});
        if (!gone && gone.error().code == Code::Unavailable) return {};
        return gone;
    }
    if (!directory) return std::unexpected(std::move(directory).error());
    if (const auto instance = read_instance(directory->get()))
        BERTH_CHECK(same_engine(where.engine, *instance));
    // The frozen of v1 do not die.
    if (auto keeper = find_keeper(directory->get(), where.engine, native))
        if (auto groups = ExecGroups::of(keeper->instance.pid)) (void)groups->all().kill_all();
    const auto recorded = read_instance(directory->get());
    if (recorded) BERTH_CHECK(remove_former(where.engine, *recorded));
    BERTH_CHECK(remove_own(where.engine, native, recorded ? recorded->container : std::string{}));
    hooks::kill_point("docker: container removed");
    BERTH_CHECK(where.dirs.remove(native));
    // What stood for protected names in a workspace while its commands ran.
    (void)keeping::ProtectedNames::sweep(where.dirs.fd());
    return {};
}

} // namespace berth::docker
