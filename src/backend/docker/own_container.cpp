#include "backend/docker/own_container.hpp"

#include <thread>

#include "base/json_reader.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kRemovalPatience = 30s;
constexpr auto kStartPatience = 10s;

} // namespace

Result<std::string> own_container(const Engine& engine, const std::string& name, const std::string& native)
{
    const auto document = engine.get("/containers/" + name + "/json");
    if (!document && document.error().code == Code::NotFound) return std::string{};
    if (!document) return std::unexpected(document.error());
    BERTH_TRY(const auto container, parse_container(*document));
    const auto who = identity_of(container.labels);
    if (!who || who->first.native != native)
        return fail(Code::Conflict, "container {} has the name of {} and is not ours",
                    container.id.substr(0, 12), native);
    return container.id;
}

Status start_container(const Engine& engine, const std::string& id)
{
    const auto deadline = system_clock().steady() + kStartPatience;
    for (;;) {
        auto started = engine.post(fmt::format("/containers/{}/start", id));
        // An engine that was killed and came back has not yet taken away what ran in it before.
        if (started || started.error().message.find("already exists") == std::string::npos ||
            system_clock().steady() >= deadline)
            return started;
        std::this_thread::sleep_for(100ms);
    }
}

Status remove_container(const Engine& engine, const std::string& id, Volumes volumes)
{
    const auto deadline = system_clock().steady() + kRemovalPatience;
    for (;;) {
        auto gone = engine.remove(
            fmt::format("/containers/{}?force=1{}", id, volumes == Volumes::Remove ? "&v=1" : ""));
        if (gone || gone.error().code == Code::NotFound) return {};
        // Somebody else removes it, or it is just being started.
        if (gone.error().code != Code::Conflict || system_clock().steady() >= deadline) return gone;
        std::this_thread::sleep_for(50ms);
    }
}

Status remove_own(const Engine& engine, const std::string& native, const std::string& recorded)
{
    if (!recorded.empty()) return remove_container(engine, recorded);
    BERTH_TRY(const auto id, own_container(engine, container_name(native), native));
    return id.empty() ? Status{} : remove_container(engine, id);
}

Result<std::string> create_container(const Engine& engine, const std::string& native,
                                     const ContainerWish& wish)
{
    const auto made = engine.post("/containers/create?name=" + url_encode(container_name(native)),
                                  container_document(wish));
    if (!made) return std::unexpected(made.error());
    const auto id_at = json::Reader(*made).at("Id");
    if (!id_at) return std::unexpected(id_at.error());
    BERTH_TRY(auto id, id_at->string());
    BERTH_CHECK(check_engine_id(id));
    return id;
}

Result<std::optional<SandboxHandle>> find_made(const Where& where, int directory,
                                               const CreateRequest& request, const std::string& native)
{
    const auto instance = read_instance(directory);
    if (!instance && instance.error().code == Code::NotFound) return std::optional<SandboxHandle>{};
    if (!instance) return std::unexpected(instance.error());
    BERTH_CHECK(same_engine(where.engine, *instance));
    if (!instance->finished) return std::optional<SandboxHandle>{};
    BERTH_TRY(const auto container, own_container(where.engine, instance->container, native));
    if (container.empty()) return std::optional<SandboxHandle>{};
    if (instance->spec != request.spec)
        return fail(Code::Conflict, "sandbox {} exists with another specification", native);
    return SandboxHandle{.sandbox = request.spec.id, .native = native};
}

} // namespace berth::docker
