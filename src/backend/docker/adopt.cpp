#include "backend/docker/adopt.hpp"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "backend/docker/attach.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/mounts.hpp"
#include "backend/docker/own_container.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

namespace {

/// A device cannot be given to a container that stands; walls of its own no command of one whose first
/// process is not ours.
bool can_be_had(const SandboxSpec& spec)
{
    return spec.root.kind == Template::Kind::Image && spec.policy.devices.empty() &&
           spec.policy.files.empty();
}

Status limit(const Engine& engine, const Container& container, const policy::Limits& limits)
{
    const auto wish = limits_document(limits);
    if (wish.empty()) return {};
    BERTH_TRY([[maybe_unused]] const auto told,
              engine.post(fmt::format("/containers/{}/update", container.id), wish));
    return {};
}

Result<std::vector<Container>> labelled(const Engine& engine, const std::string& key, const std::string& hash)
{
    json::Object filters;
    filters["label"] = json::Array{json::Value(fmt::format("{}={}", label::kExoKey, key)),
                                   json::Value(fmt::format("{}={}", label::kExoHash, hash))};
    BERTH_TRY(const auto document,
              engine.get("/containers/json?all=1&filters=" + url_encode(json::dump(filters))));
    BERTH_TRY(auto all, parse_containers(document));
    std::erase_if(all, [&](const Container& one) {
        // Ours are found by our own labels, and one that is on its way out is nobody's.
        return one.labels.contains(label::kId) || one.status == "removing" || one.status == "dead";
    });
    std::ranges::sort(all, [](const Container& a, const Container& b) {
        return std::tuple(a.running, a.created) > std::tuple(b.running, b.created);
    });
    return all;
}

/// Its words alone do not make it hold: the network is looked at.
Status check_network(const SandboxSpec& spec, const Container& container)
{
    if (spec.policy.network != policy::Network::Off || container.network == "none") return {};
    return fail(Code::Denied,
                "container {} has exo's labels of key '{}' without a network, and is on network '{}': it is "
                "not adopted",
                container.id.substr(0, 12), printable(container.labels.at(label::kExoKey), 80),
                printable(container.network, 40));
}

Status wake(const Engine& engine, const Container& container)
{
    if (container.paused) return engine.post(fmt::format("/containers/{}/unpause", container.id));
    if (container.running) return {};
    return start_container(engine, container.id);
}

} // namespace

Result<std::optional<SandboxHandle>> adopt_container(const Where& where, const CreateRequest& request)
{
    const SandboxSpec& spec = request.spec;
    if (request.labels.key.empty() || !can_be_had(spec) || ::geteuid() != 0) return std::nullopt;
    BERTH_TRY(const bool here, where.engine.here());
    if (!here) return std::nullopt;
    const auto labels = labels_of(spec, request.labels, spec.root.path);
    const auto hash = labels.find(label::kExoHash);
    if (hash == labels.end()) return std::nullopt;
    BERTH_TRY(const auto all, labelled(where.engine, request.labels.key, hash->second));
    if (all.empty()) return std::nullopt;
    BERTH_TRY(const auto container, inspect_container(where.engine, all.front().id));
    BERTH_CHECK(check_network(spec, container));
    BERTH_TRY(const auto facts, ask_facts(where.engine));
    BERTH_CHECK(admit(spec, hold(facts)));
    BERTH_TRY(const auto pins, keeping::pin_mounts(spec));
    BERTH_CHECK(check_mounts(where, spec, pins));

    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_TRY(const auto directory, where.dirs.make(native));
    ScopeExit undo([&] { (void)where.dirs.remove(native); });
    BERTH_CHECK(where.dirs.furnish(directory.get()));
    const auto adopting = [&](Error error) {
        return std::unexpected(
            std::move(error).while_doing("adopting container " + container.id.substr(0, 12)));
    };
    if (auto woken = wake(where.engine, container); !woken) return adopting(std::move(woken).error());
    Instance instance{.spec = spec,
                      .labels = request.labels,
                      .pins = pins,
                      .container = container.id,
                      .image = container.image,
                      .defaults = container.defaults,
                      .finished = false,
                      .owned = true};
    BERTH_TRY(instance.engine, where.engine.identity());
    hooks::kill_point("docker: adopting");
    // No command runs before we return; what fails until then leaves the container as it was, but awake.
    auto done = insert_keeper(where.engine, directory.get(), instance);
    hooks::kill_point("docker: adopted without limits");
    if (done) done = limit(where.engine, container, spec.policy.limits);
    instance.finished = true;
    if (done) done = write_instance(directory.get(), instance);
    if (!done) {
        (void)remove_keeper(where.engine, instance);
        return adopting(std::move(done).error());
    }
    undo.dismiss();
    // Whoever lost a race has left them, and they are not ours to remove.
    for (const auto& other : all | std::views::drop(1))
        log::warn("another container has exo's labels of the same key and specification",
                  {{.name = "sandbox", .value = native},
                   {.name = "adopted", .value = container.id.substr(0, 12)},
                   {.name = "other", .value = other.id.substr(0, 12)}});
    return SandboxHandle{.sandbox = spec.id, .native = native};
}

} // namespace berth::docker
