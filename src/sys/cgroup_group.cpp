// Holds the limits of a sandbox and its end: what is born in a group cannot leave it, since no
// cgroup file system is shown inside, so killing the group is killing all of it.
#include "sys/cgroup_group.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/io.hpp"

namespace berth::sys {
namespace {

constexpr unsigned kCpuPeriod = 100'000; // microseconds, the kernel's default
constexpr unsigned kMinQuota = 1000;     // microseconds, the kernel's least

Result<std::uint64_t> parse_number(const std::string& text, std::string_view what)
{
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return fail(Code::Internal, "{} is not a number", what);
    return value;
}

} // namespace

ControllerSet GroupLimits::controllers() const noexcept
{
    ControllerSet set;
    set[index(Controller::Memory)] = memory.has_value();
    set[index(Controller::Pids)] = pids.has_value();
    set[index(Controller::Cpu)] = cpus.has_value() || cpu_weight.has_value();
    return set;
}

GroupPlaces GroupPlaces::below(const std::string& name) const
{
    GroupPlaces places = *this;
    if (!places.v2.empty()) places.v2 += "/" + name;
    for (auto& path : places.v1)
        if (!path.empty()) path += "/" + name;
    return places;
}

std::vector<std::string> GroupPlaces::distinct_v1() const
{
    std::vector<std::string> paths(v1.begin(), v1.end());
    std::erase(paths, "");
    std::ranges::sort(paths);
    paths.erase(std::ranges::unique(paths).begin(), paths.end());
    return paths;
}

Result<SandboxGroup> SandboxGroup::create(const GroupPlaces& places, const GroupLimits& limits)
{
    SandboxGroup group(places);
    auto paths = places.distinct_v1();
    if (!places.v2.empty()) paths.push_back(places.v2);
    std::vector<std::string> made;
    for (const auto& path : paths) {
        if (::mkdir(path.c_str(), 0755) != 0) {
            auto failed = fail_errno("making group {}", path);
            for (const auto& undo : made) ::rmdir(undo.c_str());
            return failed;
        }
        made.push_back(path);
        if (path != places.v2) inherit_cpuset(path);
    }
    group.owned_ = true; // from here the destructor undoes it
    BERTH_CHECK(group.open_directories());
    BERTH_CHECK(group.set_limits(limits));
    return group;
}

Result<SandboxGroup> SandboxGroup::open(const GroupPlaces& places)
{
    SandboxGroup group(places);
    BERTH_CHECK(group.open_directories());
    return group;
}

SandboxGroup::SandboxGroup(SandboxGroup&& other) noexcept
    : places_(std::exchange(other.places_, {})), v2_(std::move(other.v2_)), tasks_(std::move(other.tasks_)),
      owned_(std::exchange(other.owned_, false))
{
}

SandboxGroup& SandboxGroup::operator=(SandboxGroup&& other) noexcept
{
    if (this == &other) return *this;
    if (owned_) static_cast<void>(remove());
    places_ = std::exchange(other.places_, {});
    v2_ = std::move(other.v2_);
    tasks_ = std::move(other.tasks_);
    owned_ = std::exchange(other.owned_, false);
    return *this;
}

SandboxGroup::~SandboxGroup()
{
    if (owned_) static_cast<void>(remove());
}

Status SandboxGroup::open_directories()
{
    if (has_v2() && v2() < 0) return fail_errno("opening group {}", places_.v2);
    return open_tasks();
}

int SandboxGroup::v2() const
{
    if (!v2_ && has_v2()) v2_ = UniqueFd(::open(places_.v2.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return v2_.get();
}

Status SandboxGroup::open_tasks() const
{
    for (const auto& path : places_.distinct_v1()) {
        UniqueFd tasks(::open((path + "/tasks").c_str(), O_WRONLY | O_CLOEXEC));
        if (!tasks) {
            auto failed = fail_errno("opening group {}", path);
            tasks_.clear();
            return failed;
        }
        tasks_.push_back(std::move(tasks));
    }
    return {};
}

void SandboxGroup::rest() noexcept
{
    v2_.reset();
    tasks_.clear();
}

std::vector<int> SandboxGroup::birth_tasks() const
{
    // Numbers that nobody can use: what would be born without its limits is not born.
    if (tasks_.empty() && !open_tasks()) return std::vector<int>(places_.distinct_v1().size(), -1);
    std::vector<int> fds;
    for (const auto& fd : tasks_) fds.push_back(fd.get());
    return fds;
}

Result<std::string> SandboxGroup::read(Controller c, const char* v1_file, const char* v2_file) const
{
    if (is_v1(c)) return read_file(places_.v1[index(c)] + "/" + v1_file);
    auto text = has_v2() ? read_file_at(v2(), v2_file) : fail(Code::NotFound, "no group");
    if (text || text.error().code != Code::NotFound) return text;
    return fail(Code::Unsupported, "group {} has no {} controller", places_.v2, to_string(c));
}

Status SandboxGroup::write(Controller c, const char* v1_file, const char* v2_file, const std::string& v) const
{
    const bool v1 = is_v1(c);
    if (!v1 && !has_v2())
        return fail(Code::Unsupported, "there is no group with a {} controller", to_string(c));
    const std::string path = v1 ? places_.v1[index(c)] + "/" + v1_file : places_.v2 + "/" + v2_file;
    return write_control(path, v);
}

Status SandboxGroup::set_limits(const GroupLimits& limits)
{
    if (limits.memory) {
        const std::string bytes = fmt::format("{}", limits.memory->count);
        constexpr auto kMemory = Controller::Memory;
        if (is_v1(kMemory)) {
            // memory+swap may never be below memory: which of the two goes first depends on
            // whether the limit shrinks. Without swap accounting the second file does not exist.
            const auto first = write(kMemory, "memory.limit_in_bytes", "", bytes);
            const auto both = write(kMemory, "memory.memsw.limit_in_bytes", "", bytes);
            if (!first) BERTH_CHECK(write(kMemory, "memory.limit_in_bytes", "", bytes));
            if (!both && both.error().code != Code::NotFound) return both;
        } else {
            BERTH_CHECK(write(kMemory, "", "memory.max", bytes));
            auto swap = write(kMemory, "", "memory.swap.max", "0");
            if (!swap && swap.error().code != Code::NotFound) return swap;
            if (limits.oom_takes_all) BERTH_CHECK(write(kMemory, "", "memory.oom.group", "1"));
        }
    }
    if (limits.pids)
        BERTH_CHECK(write(Controller::Pids, "pids.max", "pids.max", fmt::format("{}", *limits.pids)));
    if (limits.cpus) {
        const auto quota =
            std::max(static_cast<std::uint64_t>(*limits.cpus * kCpuPeriod), std::uint64_t{kMinQuota});
        if (is_v1(Controller::Cpu)) {
            BERTH_CHECK(write(Controller::Cpu, "cpu.cfs_period_us", "", fmt::format("{}", kCpuPeriod)));
            BERTH_CHECK(write(Controller::Cpu, "cpu.cfs_quota_us", "", fmt::format("{}", quota)));
        } else {
            BERTH_CHECK(write(Controller::Cpu, "", "cpu.max", fmt::format("{} {}", quota, kCpuPeriod)));
        }
    }
    if (limits.cpu_weight) {
        const unsigned weight = std::clamp(*limits.cpu_weight, 1u, 10'000u);
        const unsigned shares = std::max(weight * 1024 / 100, 2u);
        BERTH_CHECK(write(Controller::Cpu, "cpu.shares", "cpu.weight",
                          fmt::format("{}", is_v1(Controller::Cpu) ? shares : weight)));
    }
    return {};
}

Status SandboxGroup::delegate(uid_t uid, gid_t gid) const
{
    if (!has_v2()) return {}; // v1: the right to join is that of whoever opened the tasks file
    if (::fchownat(v2(), "cgroup.procs", uid, gid, 0) != 0)
        return fail_errno("delegating {}/cgroup.procs to uid {}", places_.v2, uid);
    return {};
}

Status SandboxGroup::kill_all(Patience patience)
{
    if (!has_v2()) return kill_v1(patience);
    auto killed = write_control_at(v2(), "cgroup.kill", "1");
    if (!killed && killed.error().code == Code::NotFound) {
        // Before Linux 5.14. Frozen, nothing can fork away; SIGKILL acts on the frozen all the same.
        BERTH_CHECK(write_control_at(v2(), "cgroup.freeze", "1"));
        if (auto met = kill_each(places_.v2); !met) return std::unexpected(std::move(met).error());
        killed = write_control_at(v2(), "cgroup.freeze", "0");
    }
    BERTH_CHECK(std::move(killed));
    BERTH_TRY(const bool empty, await_event(v2(), "populated", 0, patience));
    if (!empty) return fail(Code::DeadlineExceeded, "processes in group {} do not die", places_.v2);
    return {};
}

Status SandboxGroup::kill_v1(Patience patience)
{
    const auto paths = places_.distinct_v1();
    const std::string& freezer = places_.v1[index(Controller::Freezer)];
    const std::string& pids = places_.v1[index(Controller::Pids)];
    Status failed;
    const bool empty = wait_until(patience, [&] {
        // Nothing may fork between the look and the signal: frozen it cannot, and at a limit of
        // none it cannot either. A frozen process of v1 only dies once it thaws.
        if (!freezer.empty())
            static_cast<void>(write_control(freezer + "/freezer.state", "FROZEN"));
        else if (!pids.empty())
            static_cast<void>(write_control(pids + "/pids.max", "0"));
        std::size_t met = 0;
        for (const auto& path : paths) {
            auto more = kill_each(path);
            if (!more) failed = std::unexpected(std::move(more).error());
            met += more.value_or(0);
        }
        if (!freezer.empty()) static_cast<void>(write_control(freezer + "/freezer.state", "THAWED"));
        return !failed || met == 0;
    });
    if (!failed) return failed;
    if (!empty)
        return fail(Code::DeadlineExceeded, "processes in group {} do not die", fmt::join(paths, ", "));
    return {};
}

Status SandboxGroup::freeze(Patience patience)
{
    bool frozen = false;
    if (has_v2()) {
        BERTH_CHECK(write_control_at(v2(), "cgroup.freeze", "1"));
        BERTH_TRY(frozen, await_event(v2(), "frozen", 1, patience));
    } else {
        BERTH_CHECK(write(Controller::Freezer, "freezer.state", "", "FROZEN"));
        const std::string state = places_.v1[index(Controller::Freezer)] + "/freezer.state";
        frozen = wait_until(patience, [&] { return read_file(state).value_or("").starts_with("FROZEN"); });
    }
    if (frozen) return {};
    BERTH_CHECK(thaw());
    return fail(Code::DeadlineExceeded, "group {} does not freeze",
                has_v2() ? places_.v2 : places_.v1.back());
}

Status SandboxGroup::thaw()
{
    if (has_v2()) return write_control_at(v2(), "cgroup.freeze", "0");
    return write(Controller::Freezer, "freezer.state", "", "THAWED");
}

Result<bool> SandboxGroup::frozen() const
{
    if (has_v2()) {
        BERTH_TRY(const auto asked, read_file_at(v2(), "cgroup.freeze"));
        return asked.starts_with('1');
    }
    if (!can_freeze()) return false;
    BERTH_TRY(const auto asked, read(Controller::Freezer, "freezer.self_freezing", ""));
    return asked.starts_with('1');
}

Result<std::uint64_t> SandboxGroup::oom_kills() const
{
    BERTH_TRY(const auto text, read(Controller::Memory, "memory.oom_control", "memory.events"));
    if (const auto count = keyed_value(text, "oom_kill")) return *count;
    return fail(Code::Unsupported, "this kernel does not count out-of-memory kills");
}

Result<std::uint64_t> SandboxGroup::pids_max_events() const
{
    BERTH_TRY(const auto text, read(Controller::Pids, "pids.events", "pids.events"));
    return keyed_value(text, "max").value_or(0);
}

Result<std::chrono::microseconds> SandboxGroup::throttled() const
{
    BERTH_TRY(const auto text, read(Controller::Cpu, "cpu.stat", "cpu.stat"));
    if (is_v1(Controller::Cpu))
        return std::chrono::microseconds(keyed_value(text, "throttled_time").value_or(0) / 1000);
    return std::chrono::microseconds(keyed_value(text, "throttled_usec").value_or(0));
}

Result<std::chrono::microseconds> SandboxGroup::cpu_used() const
{
    // A v2 group counts it without any controller.
    if (has_v2()) {
        BERTH_TRY(const auto text, read_file_at(v2(), "cpu.stat"));
        if (const auto used = keyed_value(text, "usage_usec")) return std::chrono::microseconds(*used);
    }
    return fail(Code::Unsupported, "this group does not count processor time");
}

Result<Bytes> SandboxGroup::memory_current() const
{
    BERTH_TRY(const auto text, read(Controller::Memory, "memory.usage_in_bytes", "memory.current"));
    BERTH_TRY(const auto count, parse_number(text, "memory use"));
    return Bytes{count};
}

Result<Bytes> SandboxGroup::memory_peak() const
{
    BERTH_TRY(const auto text, read(Controller::Memory, "memory.max_usage_in_bytes", "memory.peak"));
    BERTH_TRY(const auto count, parse_number(text, "peak memory use"));
    return Bytes{count};
}

Status SandboxGroup::remove(Patience patience)
{
    auto paths = places_.distinct_v1();
    if (!places_.v2.empty()) paths.push_back(places_.v2);
    // The usual case: all have been reaped and the directories just go.
    std::erase_if(paths, [](const auto& path) { return ::rmdir(path.c_str()) == 0 || errno == ENOENT; });
    Status result;
    if (!paths.empty()) {
        const bool v2_left = paths.back() == places_.v2;
        static_cast<void>(v2_left ? kill_all(patience) : kill_v1(patience));
    }
    for (const auto& path : paths)
        if (auto gone = remove_group(path, patience); !gone && result) result = std::move(gone);
    if (result) owned_ = false;
    return result;
}

} // namespace berth::sys
