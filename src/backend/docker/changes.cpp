#include "backend/docker/changes.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <set>

#include "base/json_reader.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLongestLine = std::size_t{64} << 10;
constexpr std::array<std::string_view, 9> kActions = {"die",   "died", "destroy", "remove", "pause",
                                                      "start", "stop", "unpause", "rename"};

std::string moment(WallTime time)
{
    const auto nanos = time.time_since_epoch().count();
    return fmt::format("{}.{:09}", nanos / 1'000'000'000, nanos % 1'000'000'000);
}

/// How far the engine's clock is ahead of ours: what it tells and is asked for is by its own.
Result<std::chrono::nanoseconds> ask_ahead(const Engine& engine)
{
    if (engine.place().local()) return std::chrono::nanoseconds(0);
    const auto before = system_clock().now();
    BERTH_TRY(const auto document, engine.get("/info"));
    const auto between = before + (system_clock().now() - before) / 2; // a busy engine takes its time
    const auto told = json::Reader(document).find("SystemTime");
    const auto time = told && *told ? parse_moment((*told)->string().value_or("")) : std::nullopt;
    return time ? *time - between : std::chrono::nanoseconds(0);
}

std::string text_of(const std::optional<json::Reader>& member)
{
    return member ? member->string().value_or("") : std::string{};
}

/// Whose containers these are.
Result<std::vector<SandboxHandle>> ours(const InstanceDirs& dirs, const std::set<std::string>& containers)
{
    std::vector<SandboxHandle> out;
    if (containers.empty()) return out;
    BERTH_TRY(const auto names, dirs.names());
    for (const auto& native : names) {
        const auto directory = dirs.open(native, 0);
        const auto instance = directory ? read_instance(directory->get()) : Result<Instance>(Instance{});
        if (instance && containers.contains(instance->container))
            out.push_back({.sandbox = std::string(keeping::sandbox_of(native)), .native = native});
    }
    return out;
}

} // namespace

std::optional<WallTime> parse_moment(const std::string& text)
{
    std::tm parts{};
    const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (rest == nullptr) return std::nullopt;
    std::int64_t nanos = 0;
    if (*rest == '.') {
        std::int64_t unit = 100'000'000;
        for (++rest; *rest >= '0' && *rest <= '9'; ++rest, unit /= 10) nanos += (*rest - '0') * unit;
    }
    if (std::string_view(rest) != "Z" && *rest != '+' && *rest != '-') return std::nullopt;
    std::int64_t east = 0;
    if (*rest != 'Z') {
        int hours = 0, minutes = 0;
        if (std::sscanf(rest + 1, "%2d:%2d", &hours, &minutes) != 2) return std::nullopt;
        east = (hours * 60 + minutes) * (*rest == '-' ? -60 : 60);
    }
    return WallTime(std::chrono::nanoseconds((::timegm(&parts) - east) * 1'000'000'000 + nanos));
}

std::optional<EngineEvent> parse_event(const json::Value& document)
{
    const json::Reader at(document);
    const auto type = at.find("Type");
    const auto actor = at.find("Actor");
    const auto time = at.find("timeNano");
    if (!type || !actor || !*actor || !time || !*time || text_of(*type) != "container") return std::nullopt;
    const auto id = (*actor)->find("ID");
    const auto action = at.find("Action");
    const auto nanos = (*time)->integer(0, std::int64_t{1} << 62);
    if (!id || !action || !nanos) return std::nullopt;
    return EngineEvent{.container = text_of(*id),
                       .nanos = *nanos,
                       .matters = std::ranges::find(kActions, text_of(*action)) != kActions.end()};
}

Result<std::vector<SandboxHandle>> Changes::next(const Where& where, SteadyTime until)
{
    const auto& clock = system_clock();
    if (!ahead_) {
        BERTH_TRY(ahead_, ask_ahead(where.engine));
    }
    for (;;) {
        const auto left = std::max(until - clock.steady(), SteadyTime::duration(0));
        // Never before its beginning, which an engine refuses.
        const WallTime end = std::max(clock.now() + left, since_ + 1ms);
        json::Object filters;
        filters["type"] = json::Array{json::Value("container")};
        std::set<std::string> seen;
        WallTime last = since_;
        std::string pending;
        const auto take = [&](std::string_view bytes) -> Status {
            pending += bytes;
            for (std::size_t at; (at = pending.find('\n')) != std::string::npos; pending.erase(0, at + 1)) {
                const auto document = json::parse(std::string_view(pending).substr(0, at));
                const auto event = document ? parse_event(*document) : std::nullopt;
                if (!event) continue;
                // A moment that is still to come would keep everything before it from us.
                const WallTime told(std::chrono::nanoseconds(event->nanos) - *ahead_);
                last = std::clamp(told, last, std::max(last, clock.now()));
                if (event->matters) seen.insert(event->container);
            }
            if (pending.size() > kLongestLine)
                return fail(Code::Unavailable, "the engine's events have no end of line");
            // Whoever waits hears of it now; the rest is asked for from there on.
            if (!seen.empty()) return fail(Code::Exhausted, "enough events");
            return {};
        };
        const auto told = where.engine.call(
            {.target = fmt::format("/events?since={}&until={}&filters={}", moment(since_ + *ahead_),
                                   moment(end + *ahead_), url_encode(json::dump(filters)))},
            {.patience = std::chrono::ceil<std::chrono::milliseconds>(left) + 30s, .body = 1_MiB}, take);
        if (!told && seen.empty()) return std::unexpected(told.error());
        // One that comes at the very end of what was asked for is asked for again: better twice than never.
        since_ = seen.empty() ? end : last + 1ns;
        if (seen.empty()) return std::vector<SandboxHandle>{}; // the time is over, by the engine's clock
        BERTH_TRY(auto changed, ours(where.dirs, seen));
        if (!changed.empty() || clock.steady() >= until) return changed;
    }
}

} // namespace berth::docker
