#include "backend/docker/start_again.hpp"

#include <utility>

#include "backend/docker/own_container.hpp"
#include "backend/docker/snapshot.hpp"
#include "backend/docker/uncommitted.hpp"
#include "base/hooks.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"

namespace berth::docker {

namespace {

constexpr std::size_t kShortId = 12;

/// "task ID: already exists", "container with id exists: ID", "mkdir …/ID: file exists": what is in the way
/// has the container's own id, so that no other container is kept from anything.
bool is_blocked(const Error& error, const std::string& container)
{
    return error.message.find(container) != std::string::npos &&
           error.message.find("exists") != std::string::npos;
}

/// A document that makes another one of `image`, and the same in all else.
Result<json::Object> settings_of(const json::Value& inspected, const Container& container,
                                 const std::string& image)
{
    const json::Reader at(inspected);
    BERTH_TRY(const auto config_at, at.at("Config"));
    BERTH_TRY(const auto host_at, at.at("HostConfig"));
    const auto* config = config_at.value().if_object();
    const auto* host = host_at.value().if_object();
    if (config == nullptr || host == nullptr)
        return fail(Code::Unavailable, "the engine tells no settings of container {}",
                    container.id.substr(0, kShortId));
    json::Object out = *config;
    out["Image"] = image;
    json::Object labels;
    if (const auto* had = out.if_contains("Labels"); had != nullptr && had->is_object())
        labels = had->get_object();
    labels[label::kFormer] = container.id;
    out["Labels"] = std::move(labels);
    json::Object same = *host;
    // With another's network or host name it has none of its own, though the engine tells one.
    const auto word = [&](const char* name) {
        const auto* member = same.if_contains(name);
        return member != nullptr && member->is_string() ? std::string(member->get_string()) : std::string{};
    };
    if (word("NetworkMode").starts_with("container:") || word("UTSMode") == "host")
        for (const char* own : {"Hostname", "Domainname"}) out.erase(own);
    // What the engine keeps in volumes for it stays where it is.
    const auto* from = same.if_contains("VolumesFrom");
    if (!container.volumes.empty() || (from != nullptr && from->is_array() && !from->get_array().empty()))
        same["VolumesFrom"] = json::Array{json::Value(container.id)};
    out["HostConfig"] = std::move(same);
    return out;
}

/// One that a killed process of ours has made in its place and not recorded.
Status remove_unrecorded(const Engine& engine, const std::string& name, const std::string& former)
{
    const auto document = engine.get("/containers/" + url_encode(name) + "/json");
    if (!document && document.error().code == Code::NotFound) return {};
    if (!document) return std::unexpected(document.error());
    BERTH_TRY(const auto there, parse_container(*document));
    const auto of = there.labels.find(label::kFormer);
    if (of == there.labels.end() || of->second != former)
        return fail(Code::Conflict, "container {} has the name {} and is another's",
                    there.id.substr(0, kShortId), name);
    return remove_container(engine, there.id, Volumes::Leave);
}

/// Each step leaves either the recorded container whole or another one recorded; what is left over is known
/// by the record, or by name and label to whoever tries again.
Status replace(const Where& where, int directory, const std::string& native, Instance& instance)
{
    const Engine& engine = where.engine;
    BERTH_TRY(const auto inspected, engine.get("/containers/" + instance.container + "/json"));
    BERTH_TRY(const auto container, parse_container(inspected));
    BERTH_TRY(const auto images, lock_images(where.dirs, ImageUse::Load)); // until it is in use
    BERTH_TRY(const auto image, commit_container(engine, instance, CommitFor::Successor, native));
    if (image.empty()) return fail(Code::Unavailable, "the engine does not say what it has committed");
    for (const auto& note : note_uncommitted(engine, container, instance.inside))
        log::warn("the container that goes on lacks something",
                  {{.name = "sandbox", .value = native}, {.name = "what", .value = note}});
    // The name is what others find it by, and two cannot have it.
    const std::string aside = "-" + instance.container.substr(0, kShortId);
    std::string name = container.name;
    if (name.ends_with(aside))
        name.resize(name.size() - aside.size());
    else
        BERTH_CHECK(engine.post(
            fmt::format("/containers/{}/rename?name={}", instance.container, url_encode(name + aside))));
    hooks::kill_point("docker: container renamed");
    BERTH_CHECK(remove_unrecorded(engine, name, instance.container));
    BERTH_TRY(const auto settings, settings_of(inspected, container, image));
    BERTH_TRY(const auto made, engine.post("/containers/create?name=" + url_encode(name), settings));
    BERTH_TRY(const auto id_at, json::Reader(made).at("Id"));
    BERTH_TRY(const auto id, id_at.string());
    BERTH_CHECK(check_engine_id(id));
    hooks::kill_point("docker: successor made");
    instance.former = std::exchange(instance.container, id);
    instance.image = image;
    return write_instance(directory, instance);
}

} // namespace

Status remove_former(const Engine& engine, const Instance& instance)
{
    if (instance.former.empty()) return {};
    return remove_container(engine, instance.former, Volumes::Leave);
}

Status start_again(const Where& where, int directory, const std::string& native, Instance& instance)
{
    auto started = start_container(where.engine, instance.container);
    if (!started && is_blocked(started.error(), instance.container)) {
        log::warn("an engine cannot start a container any more: it goes on as another",
                  {{.name = "sandbox", .value = native},
                   {.name = "container", .value = instance.container.substr(0, kShortId)},
                   {.name = "error", .value = started.error().line()}});
        BERTH_CHECK(remove_former(where.engine, instance));
        BERTH_CHECK(replace(where, directory, native, instance));
        hooks::kill_point("docker: successor recorded");
        started = start_container(where.engine, instance.container);
    }
    if (!started || instance.former.empty()) return started;
    // An engine that does not want to now is asked again by the next start, or by whoever destroys it.
    if (!remove_former(where.engine, instance)) return {};
    instance.former.clear();
    return write_instance(directory, instance);
}

} // namespace berth::docker
