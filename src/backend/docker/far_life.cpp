#include "backend/docker/far_life.hpp"

#include <unistd.h>

#include "backend/docker/exec_place.hpp"
#include "backend/docker/far_exec.hpp"
#include "backend/docker/far_files.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/own_container.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/start_again.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "image/tar_writer.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/keeper_image.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

namespace {

using image::TarMember;

Status check_machine(const Engine& engine)
{
    BERTH_TRY(const auto document, engine.get("/info"));
    const json::Reader at(document);
    BERTH_TRY(const auto found, at.find("Architecture"));
    const auto kind = found ? found->string().value_or("") : std::string{};
    if (kind == "x86_64" || kind == "amd64") return {};
    return fail(
        Code::Unsupported,
        "the machine of the engine at {} is {}, and the program that berth puts into a container is for "
        "x86_64",
        engine.place().text(), kind.empty() ? "of no kind it tells" : printable(kind, 40));
}

Status check_spec(const Engine& engine, const SandboxSpec& spec)
{
    const auto refuse = [&](std::string_view what, const std::string& target) {
        return fail(
            Code::Unsupported,
            "{} at {}: the engine at {} is on another machine, which has no directory of this one; copy it "
            "in with berth cp",
            what, printable(target), engine.place().text());
    };
    if (!spec.mounts.empty()) return refuse("mount", spec.mounts.front().target);
    if (!spec.volumes.empty()) return refuse("volume", spec.volumes.front().target);
    return {};
}

/// The program that is the container's first process and stands beside its commands.
Status put_keeper(const Engine& engine, const std::string& container)
{
    BERTH_TRY(const int image, keeping::keeper_image());
    std::string program;
    char piece[65536];
    for (ssize_t n; (n = ::pread(image, &piece[0], sizeof piece, static_cast<off_t>(program.size()))) > 0;)
        program.append(&piece[0], static_cast<std::size_t>(n));
    const std::string directory = std::string(kInside).substr(1);
    return put_archive(
        engine, container, "/",
        image::tar::header({.name = directory, .kind = TarMember::Kind::Directory, .mode = 0755}) +
            image::tar::header({.name = directory + "/keeper", .mode = 0555, .size = program.size()}) +
            program + image::tar::padding(program.size()) + image::tar::end());
}

/// What is made from one image or snapshot is not one machine.
Status name_machine(const Engine& engine, const std::string& container)
{
    const std::string text = random_hex(16) + "\n";
    auto put = put_archive(engine, container, "/etc",
                           image::tar::header({.name = "machine-id", .mode = 0444, .size = text.size()}) +
                               text + image::tar::padding(text.size()) + image::tar::end());
    if (!put && put.error().code == Code::NotFound) return {}; // a root without /etc
    return put;
}

/// Whatever was wrong is undone by the caller.
Status begin(const Engine& engine, const Instance& instance)
{
    BERTH_CHECK(put_keeper(engine, instance.container));
    hooks::kill_point("docker: keeper put in");
    BERTH_CHECK(name_machine(engine, instance.container));
    BERTH_CHECK(start_container(engine, instance.container));
    hooks::kill_point("docker: container started");
    BERTH_TRY(const auto container, inspect_container(engine, instance.container));
    if (!container.running)
        return fail(Code::Unavailable, "the container of {} ended at once", instance.spec.id);
    // An account that the image does not have is a refusal of the whole.
    BERTH_TRY(const auto user, far_account(engine, instance, {}));
    return make_directory(engine, instance.container, workdir_of(instance, user), user);
}

} // namespace

EngineFacts far_facts(EngineFacts facts)
{
    facts.walls = false;
    facts.far = true;
    return facts;
}

Result<keeping::Account> far_account(const Engine& engine, const Instance& instance, const std::string& user)
{
    const auto etc = [&](const std::string& name) -> Result<std::string> {
        auto text = read_small(engine, instance.container, "/" + name);
        if (!text && text.error().code == Code::NotFound) return std::string{};
        return text;
    };
    return account_of(instance, user, etc);
}

Result<SandboxHandle> make_far(const Where& where, const CreateRequest& request)
{
    const SandboxSpec& spec = request.spec;
    if (!is_id(spec.id, "sbx_"))
        return fail(Code::Invalid, "'{}' is not the id of a sandbox", printable(spec.id, 60));
    BERTH_CHECK(validate(spec));
    BERTH_CHECK(check_restorable(request));
    BERTH_CHECK(check_spec(where.engine, spec));
    BERTH_TRY(const auto facts, ask_facts(where.engine));
    BERTH_CHECK(admit(spec, hold(far_facts(facts))));
    BERTH_CHECK(check_machine(where.engine));
    BERTH_TRY(const auto engine, where.engine.identity());
    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_TRY(const auto directory, where.dirs.make(native));
    BERTH_TRY(const auto made, find_made(where, directory.get(), request, native));
    if (made) return *made;

    ScopeExit undo([&] { (void)where.dirs.remove(native); });
    BERTH_CHECK(remove_own(where.engine, native, {}));
    BERTH_CHECK(where.dirs.furnish(directory.get()));
    hooks::kill_point("docker: directory made");
    BERTH_TRY(const auto images, lock_images(where.dirs, ImageUse::Load));
    auto found = request.from ? load_snapshot(where.engine, *request.from)
                              : ensure_image(where.engine, spec.root, request.progress);
    if (!found) return std::unexpected(std::move(found).error().while_doing("creating " + native));
    auto container = create_container(where.engine, native,
                                      {.spec = spec,
                                       .labels = request.labels,
                                       .image = found->id,
                                       .image_name = found->name,
                                       .shown = {},
                                       .owner = 0,
                                       .machine_id = {}});
    if (!container) return std::unexpected(std::move(container).error().while_doing("creating " + native));
    ScopeExit undo_container([&] { (void)remove_container(where.engine, *container); });
    hooks::kill_point("docker: container made");
    Instance instance{.spec = spec,
                      .labels = request.labels,
                      .container = *container,
                      .image = found->id,
                      .defaults = found->defaults,
                      .boot = {},
                      .engine = engine,
                      .finished = false,
                      .inside = {}};
    if (auto begun = begin(where.engine, instance); !begun)
        return std::unexpected(std::move(begun).error().while_doing("starting " + native));
    hooks::kill_point("docker: keeper recorded");
    instance.finished = true;
    BERTH_CHECK(write_instance(directory.get(), instance));
    undo_container.dismiss();
    undo.dismiss();
    return SandboxHandle{.sandbox = spec.id, .native = native};
}

Status destroy_far(const Where& where, keeping::RelayedExecs& execs, const std::string& native)
{
    BERTH_CHECK(keeping::check_native(native));
    auto directory = where.dirs.lock(native);
    if (!directory && directory.error().code == Code::NotFound) {
        // An engine that nobody can ask has nothing of ours that this state knows of.
        auto gone = remove_own(where.engine, native, {});
        if (!gone && gone.error().code == Code::Unavailable) return {};
        return gone;
    }
    if (!directory) return std::unexpected(std::move(directory).error());
    const auto recorded = read_instance(directory->get());
    if (recorded) BERTH_CHECK(same_engine(where.engine, *recorded));
    execs.let_go(native);
    if (recorded) BERTH_CHECK(remove_former(where.engine, *recorded));
    BERTH_CHECK(remove_own(where.engine, native, recorded ? recorded->container : std::string{}));
    hooks::kill_point("docker: container removed");
    return where.dirs.remove(native);
}

Status stop_far(const Where& where, keeping::RelayedExecs& execs, const std::string& native,
                std::chrono::milliseconds grace)
{
    auto directory = where.dirs.lock(native);
    if (!directory && directory.error().code == Code::NotFound) return {};
    if (!directory) return std::unexpected(std::move(directory).error());
    const auto instance = read_instance(directory->get());
    if (!instance && instance.error().code == Code::NotFound) return {};
    if (!instance) return std::unexpected(instance.error());
    BERTH_CHECK(same_engine(where.engine, *instance));
    const auto container = inspect_container(where.engine, instance->container);
    if (!container && container.error().code == Code::NotFound) return {};
    if (!container) return std::unexpected(container.error());
    if (container->paused)
        BERTH_CHECK(where.engine.post(fmt::format("/containers/{}/unpause", container->id)));
    if (container->running) {
        execs.end_all(native, grace);
        auto killed = where.engine.post(fmt::format("/containers/{}/kill", container->id));
        if (!killed && killed.error().code != Code::Conflict) return killed;
        BERTH_CHECK(where.engine.post(fmt::format("/containers/{}/wait", container->id)));
        hooks::kill_point("docker: container stopped");
    }
    BERTH_TRY(const auto left, execs.list(native));
    for (const auto& one : left)
        if (one.running) BERTH_CHECK(execs.settle(native, one.id));
    return {};
}

Result<Started> start_far(const Where& where, const std::string& native)
{
    BERTH_TRY(const auto directory, where.dirs.lock(native));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    BERTH_CHECK(same_engine(where.engine, instance));
    const auto container = inspect_container(where.engine, instance.container);
    if (!container && container.error().code == Code::NotFound)
        return fail(Code::NotFound, "the container of {} is gone", native);
    if (!container) return std::unexpected(container.error());
    if (container->running) return Started{};
    // Root inside may have changed it.
    BERTH_CHECK(put_keeper(where.engine, instance.container));
    if (auto done = start_again(where, directory.get(), native, instance); !done)
        return std::unexpected(std::move(done).error().while_doing("starting " + native));
    hooks::kill_point("docker: container started again");
    return Started{};
}

} // namespace berth::docker
