#include <set>

#include "backend/docker/life.hpp"
#include "backend/docker/sandbox.hpp"
#include "keeping/lock.hpp"
#include "keeping/native.hpp"
#include "keeping/pause.hpp"

namespace berth::docker {

namespace {

State state_of(const Container& container)
{
    if (container.paused) return State::Paused;
    if (container.running) return State::Running;
    return State::Stopped;
}

/// As the engine tells it, for instances whose keeper does not answer or is not ours to ask.
Result<Found> ask_engine(const Engine& engine, const std::string& container, Found found)
{
    const auto document = engine.get("/containers/" + container + "/json");
    if (!document && document.error().code == Code::NotFound) return found;
    if (!document) return std::unexpected(document.error());
    BERTH_TRY(const auto now, parse_container(*document));
    const auto who = identity_of(now.labels);
    if (!who || who->first.native != found.sandbox.native) return found;
    if (found.labels.created == WallTime{}) found.labels = who->second;
    found.state = state_of(now);
    if (now.status == "removing" || now.status == "dead") return found;
    found.health = found.state == State::Running ? Health::Unresponsive : Health::Healthy;
    return found;
}

/// Nobody waits for a keeper that cannot answer. A snapshot holds it still for a moment, in its turn.
bool paused_by_engine(int directory, const Instance& instance)
{
    if (!keeper_frozen(instance.pid)) return false;
    const auto turn = keeping::Turn::take(directory, keeping::Turn::Kind::Start);
    return turn && keeper_frozen(instance.pid);
}

} // namespace

/// Nobody of ours can look inside: the engine's word is all there is.
Result<Found> look_far(const Where& where, const std::string& native)
{
    BERTH_CHECK(keeping::check_native(native));
    Found found{.sandbox = {.sandbox = std::string(keeping::sandbox_of(native)), .native = native},
                .health = Health::Gone,
                .state = State::Lost,
                .labels = {},
                .paused = {}};
    const auto directory = where.dirs.open(native, 0);
    if (!directory && directory.error().code != Code::NotFound) return std::unexpected(directory.error());
    const auto instance =
        directory ? read_instance(directory->get()) : Result<Instance>(std::unexpected(directory.error()));
    if (!instance && instance.error().code != Code::NotFound) return std::unexpected(instance.error());
    if (directory && (!instance || !instance->finished)) {
        if (!keeping::being_changed(directory->get())) return found;
        found.state = State::Creating;
        found.health = Health::Unresponsive;
        return found;
    }
    if (instance) {
        BERTH_CHECK(same_engine(where.engine, *instance));
        found.labels = instance->labels;
    }
    auto asked = ask_engine(where.engine, instance ? instance->container : container_name(native), found);
    if (asked && asked->health == Health::Unresponsive) asked->health = Health::Healthy;
    return asked;
}

Status same_engine(const Engine& engine, const Instance& instance)
{
    BERTH_TRY(const auto now, engine.identity());
    if (instance.engine.empty() || instance.engine == now) return {};
    return fail(Code::Unavailable,
                "the container of {} is on another engine than the one at {}: set DOCKER_HOST or the context "
                "it was made with",
                instance.spec.id, engine.place().text());
}

Result<Found> look_at(const Where& where, const std::string& native)
{
    BERTH_CHECK(keeping::check_native(native));
    Found found{.sandbox = {.sandbox = std::string(keeping::sandbox_of(native)), .native = native},
                .health = Health::Gone,
                .state = State::Lost,
                .labels = {},
                .paused = {}};
    const auto directory = where.dirs.open(native, 0);
    if (!directory && directory.error().code != Code::NotFound) return std::unexpected(directory.error());
    if (!directory) {
        // Another state's, perhaps. That the directory is missing says nothing of the container: one whom
        // nobody can ask about is not gone.
        auto asked = ask_engine(where.engine, container_name(native), found);
        if (asked && asked->state == State::Running) asked->health = Health::Healthy;
        return asked;
    }
    const auto instance = read_instance(directory->get());
    if (!instance && instance.error().code == Code::NotFound) {
        if (!keeping::being_changed(directory->get())) return found;
        found.state = State::Creating;
        found.health = Health::Unresponsive;
        return found;
    }
    if (!instance) return std::unexpected(instance.error());
    if (!instance->finished) {
        if (!keeping::being_changed(directory->get())) return found;
        found.state = State::Creating;
        found.health = Health::Unresponsive;
        return found;
    }
    found.labels = instance->labels;
    const bool frozen = paused_by_engine(directory->get(), *instance);
    auto sandbox = frozen ? Result<Sandbox>(fail(Code::Conflict, "it is paused"))
                          : Sandbox::open(where.dirs, where.engine, native);
    // Started by somebody else on something else than its mounts were: each command is told so, and it can be
    // stopped.
    if (!sandbox && sandbox.error().code == Code::Denied && !sandbox.error().sys) {
        found.state = State::Running;
        found.health = Health::Healthy;
        return found;
    }
    if (sandbox) {
        const auto paused = sandbox->paused().value_or(keeping::Paused{});
        found.state = paused.now ? State::Paused : State::Running;
        found.paused = paused.in_all;
        found.health = Health::Healthy;
        return found;
    }
    BERTH_CHECK(same_engine(where.engine, *instance));
    if (!instance->inside.empty()) {
        const auto document = where.engine.get("/containers/" + instance->container + "/json");
        if (!document && document.error().code == Code::NotFound) return found;
        if (!document) return std::unexpected(document.error());
        BERTH_TRY(const auto now, parse_container(*document));
        found.state = state_of(now);
        found.health = found.state == State::Running ? Health::Unresponsive : Health::Healthy;
        return found;
    }
    return ask_engine(where.engine, instance->container, found);
}

Result<std::vector<Found>> look_at_all(const Where& where) { return look_at_all(where, look_at); }

Result<std::vector<Found>> look_at_all(const Where& where, Look look)
{
    BERTH_TRY(const auto names, where.dirs.names());
    json::Object filters;
    filters["label"] = json::Array{json::Value(label::kId)};
    const auto document =
        where.engine.get("/containers/json?all=1&filters=" + url_encode(json::dump(filters)));
    // Without an engine, and without anything of ours that needs one, there is nothing to tell.
    if (!document && names.empty()) return std::vector<Found>{};
    if (!document) return std::unexpected(document.error());
    BERTH_TRY(const auto all, parse_containers(*document));
    std::set<std::string> natives(names.begin(), names.end());
    std::vector<Found> out;
    for (const auto& one : all) {
        const auto who = identity_of(one.labels);
        if (!who || natives.contains(who->first.native)) continue;
        // An image made of ours hands its labels on to whatever is run from it.
        if (one.name != container_name(who->first.native)) continue;
        out.push_back({.sandbox = who->first,
                       .health = Health::Healthy,
                       .state = state_of(one),
                       .labels = who->second,
                       .paused = {}});
    }
    for (const auto& native : natives) {
        const auto directory = where.dirs.open(native, 0);
        const auto instance = directory ? read_instance(directory->get()) : Result<Instance>(Instance{});
        if (instance && !instance->owned) continue; // somebody else's
        BERTH_TRY(auto found, look(where, native));
        out.push_back(std::move(found));
    }
    return out;
}

} // namespace berth::docker
