#include "backend/docker/stats.hpp"

#include "base/json_reader.hpp"

namespace berth::docker {

namespace {

/// A number below members, one in the other.
std::optional<std::uint64_t> number(const json::Value& from, std::initializer_list<std::string_view> names)
{
    const json::Value* at = &from;
    for (const auto name : names) {
        const auto* object = at->if_object();
        at = object == nullptr ? nullptr : object->if_contains(name);
        if (at == nullptr) return std::nullopt;
    }
    const auto value = json::Reader(*at).integer(0, std::int64_t{1} << 62);
    if (!value) return std::nullopt;
    return static_cast<std::uint64_t>(*value);
}

} // namespace

Usage parse_stats(const json::Value& document)
{
    Usage out;
    if (const auto used = number(document, {"cpu_stats", "cpu_usage", "total_usage"}))
        out.cpu = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::nanoseconds(*used));
    if (const auto memory = number(document, {"memory_stats", "usage"})) {
        // What the kernel would give back at once is nobody's use; the name differs between v1 and v2.
        auto cached = number(document, {"memory_stats", "stats", "total_inactive_file"});
        if (!cached) cached = number(document, {"memory_stats", "stats", "inactive_file"});
        out.memory = Bytes{*memory - std::min(*memory, cached.value_or(0))};
    }
    return out;
}

Result<Usage> ask_usage(const Engine& engine, const std::string& container)
{
    BERTH_TRY(const auto document,
              engine.get(fmt::format("/containers/{}/stats?stream=0&one-shot=1", container)));
    return parse_stats(document);
}

} // namespace berth::docker
