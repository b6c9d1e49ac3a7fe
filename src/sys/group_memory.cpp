#include "sys/group_memory.hpp"

#include <unistd.h>

#include <charconv>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::sys {
namespace {

std::optional<std::uint64_t> number_in(const std::string& file)
{
    const auto text = read_file(file);
    std::uint64_t value = 0;
    if (!text || std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc())
        return std::nullopt;
    return value;
}

std::optional<GroupMemory> counted(const GroupPlaces& places)
{
    const std::string& v1 = places.v1[index(Controller::Memory)];
    const std::string& group = v1.empty() ? places.v2 : v1;
    if (group.empty()) return std::nullopt;
    const auto all = number_in(group + (v1.empty() ? "/memory.current" : "/memory.usage_in_bytes"));
    if (!all) return std::nullopt;
    const auto stat = read_file(group + "/memory.stat");
    const auto cache = stat ? keyed_value(*stat, v1.empty() ? "file" : "total_cache") : std::nullopt;
    const auto held = std::min(cache.value_or(0), *all);
    return GroupMemory{.used = Bytes{*all - held}, .cache = Bytes{held}};
}

/// "size resident shared …", in pages; who has ended meanwhile has none.
std::uint64_t own_pages(pid_t pid)
{
    const auto text = read_file(fmt::format("/proc/{}/statm", pid));
    if (!text) return 0;
    const auto fields = split(*text, ' ');
    if (fields.size() < 3) return 0;
    const auto resident = parse_int(fields[1], 0, INT64_MAX, "pages");
    const auto shared = parse_int(fields[2], 0, INT64_MAX, "pages");
    return resident && shared && *resident > *shared ? static_cast<std::uint64_t>(*resident - *shared) : 0;
}

std::uint64_t pages_below(const std::string& group)
{
    std::uint64_t out = 0;
    if (const auto there = processes_in(group))
        for (const auto pid : *there) out += own_pages(pid);
    for (const auto& name : subgroups(group)) out += pages_below(group + "/" + name);
    return out;
}

} // namespace

Result<GroupMemory> memory_of(const GroupPlaces& places)
{
    if (const auto told = counted(places)) return *told;
    const auto v1 = places.distinct_v1();
    if (places.v2.empty() && v1.empty()) return fail(Code::Unsupported, "there is no group to look into");
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return GroupMemory{.used = Bytes{page * pages_below(places.v2.empty() ? v1.front() : places.v2)},
                       .cache = {}};
}

} // namespace berth::sys
