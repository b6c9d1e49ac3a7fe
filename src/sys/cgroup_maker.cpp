#include "sys/cgroup_maker.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::sys {
namespace {

constexpr std::string_view kPrefix = "berth-";

struct ProcStat {
    char state = 0;
    std::uint64_t start_time = 0;
};

/// Fields 3 and 22 of proc_pid_stat(5). The name in field 2 may hold anything, so count from its
/// closing bracket.
std::optional<ProcStat> parse_stat(const std::string& text)
{
    const auto bracket = text.rfind(") ");
    if (bracket == std::string::npos) return std::nullopt;
    const auto fields = split(std::string_view(text).substr(bracket + 2), ' ');
    ProcStat stat;
    if (fields.size() < 20 || fields[0].size() != 1) return std::nullopt;
    stat.state = fields[0][0];
    const auto& ticks = fields[19];
    const auto [rest, error] = std::from_chars(ticks.data(), ticks.data() + ticks.size(), stat.start_time);
    if (error != std::errc()) return std::nullopt;
    return stat;
}

std::uint64_t own_pid_namespace()
{
    struct stat st{};
    return ::stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/// Takes a number and the '-' after it off the front.
template <class T> bool take(std::string_view& text, T& value, int base)
{
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    const auto used = static_cast<std::size_t>(rest - text.data());
    if (error != std::errc() || used >= text.size() || text[used] != '-') return false;
    text.remove_prefix(used + 1);
    return true;
}

} // namespace

Maker this_process()
{
    Maker maker{.pid = ::getpid(), .start_time = 0, .pid_namespace = own_pid_namespace()};
    if (const auto text = read_file("/proc/self/stat"))
        if (const auto stat = parse_stat(*text)) maker.start_time = stat->start_time;
    return maker;
}

std::optional<Maker> process_of(pid_t pid)
{
    const auto text = read_file(fmt::format("/proc/{}/stat", pid));
    const auto stat = text ? parse_stat(*text) : std::nullopt;
    if (!stat || stat->state == 'Z' || stat->state == 'X') return std::nullopt;
    return Maker{.pid = pid, .start_time = stat->start_time, .pid_namespace = own_pid_namespace()};
}

bool may_be_alive(const Maker& maker)
{
    if (maker.pid_namespace != own_pid_namespace()) return true;
    const auto text = read_file(fmt::format("/proc/{}/stat", maker.pid));
    if (!text) return text.error().code != Code::NotFound;
    const auto stat = parse_stat(*text);
    if (!stat) return true;
    return stat->start_time == maker.start_time && stat->state != 'Z' && stat->state != 'X';
}

std::string group_name(const Maker& maker, std::string_view name)
{
    return fmt::format("{}{}-{}-{:x}-{}", kPrefix, maker.pid, maker.start_time, maker.pid_namespace, name);
}

std::optional<Maker> maker_of(std::string_view group_name)
{
    if (!group_name.starts_with(kPrefix)) return std::nullopt;
    group_name.remove_prefix(kPrefix.size());
    Maker maker;
    if (!take(group_name, maker.pid, 10) || !take(group_name, maker.start_time, 10) ||
        !take(group_name, maker.pid_namespace, 16) || maker.pid <= 0 || group_name.empty())
        return std::nullopt;
    return maker;
}

} // namespace berth::sys
