// Probes for limits: a little must be possible, more than the limit must not.

#include <algorithm>

#include "base/strings.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

namespace {

constexpr Bytes kMostMemory = 2_GiB; ///< more is not tried: the machine itself may lack it
constexpr std::uint64_t kMostProcesses = 8192;
constexpr Bytes kProcess = 48_KiB; ///< what the kernel needs for one

class Limits {
public:
    Limits(const Ground& ground, Plan& out) : ground_(ground), out_(out) {}

    void run()
    {
        const auto& limits = ground_.spec.policy.limits;
        if (limits.memory) memory(*limits.memory);
        if (limits.cpus) cpus(*limits.cpus);
        if (limits.pids) pids(*limits.pids);
        if (limits.disk) disk(*limits.disk);
        if (limits.open_files) open_files(*limits.open_files);
        if (limits.wall_time) {
            rule_ = "wall time " + show(*limits.wall_time);
            untried("a proof would have to last as long");
        }
    }

private:
    void add(std::string name, Must must, std::vector<std::string> act)
    {
        out_.probes.push_back({.rule = rule_, .name = std::move(name), .must = must, .act = std::move(act)});
    }
    void untried(std::string why) { out_.untried.push_back({rule_, std::move(why)}); }
    /// False, and said, where other commands run that would starve.
    bool may_exceed()
    {
        if (ground_.load == Load::Whole) return true;
        untried("other commands run in the sandbox, which would starve");
        return false;
    }

    void memory(Bytes limit)
    {
        rule_ = "memory " + show(limit);
        add("use_a_little_memory", Must::Pass,
            {"memory", std::to_string(std::min<std::uint64_t>(limit.count / 4, 16u << 20))});
        if (limit > kMostMemory) return untried("more than 2 GiB are not tried");
        if (may_exceed())
            add("use_more_memory", Must::Fail, {"memory", std::to_string(limit.count + (32u << 20))});
    }

    void cpus(double limit)
    {
        rule_ = fmt::format("cpus {}", limit);
        add("use_a_processor", Must::Pass, {"processes", "1", "few"});
        if (may_exceed()) add("use_more_processors", Must::Fail, {"processors", fmt::format("{}", limit)});
    }

    void pids(std::uint64_t limit)
    {
        rule_ = fmt::format("pids {}", limit);
        add("make_a_few_processes", Must::Pass,
            {"processes", std::to_string(std::clamp<std::uint64_t>(limit / 4, 1, 16)), "few"});
        if (limit > kMostProcesses) return untried(fmt::format("more than {} are not tried", kMostProcesses));
        const auto& memory = ground_.spec.policy.limits.memory;
        if (memory && limit * kProcess.count > memory->count / 2)
            return untried("the limit of memory would strike first");
        if (may_exceed()) add("make_more_processes", Must::Fail, {"processes", std::to_string(limit + 1)});
    }

    void disk(Bytes limit)
    {
        rule_ = "disk " + show(limit);
        const std::string place = writable_place(ground_);
        if (place.empty()) return untried("nothing can be written");
        add("write_a_little", Must::Pass, {"disk", place, std::to_string(limit.count / 8), "few"});
        add("write_more", Must::Fail, {"disk", place, std::to_string(limit.count + (1u << 20))});
    }

    void open_files(std::uint64_t limit)
    {
        rule_ = fmt::format("open files {}", limit);
        add("open_a_few_files", Must::Pass,
            {"open-files", std::to_string(std::clamp<std::uint64_t>(limit / 4, 1, 16))});
        add("open_more_files", Must::Fail, {"open-files", std::to_string(limit + 1)});
    }

    const Ground& ground_;
    Plan& out_;
    std::string rule_;
};

} // namespace

void plan_limits(const Ground& ground, Plan& out) { Limits(ground, out).run(); }

} // namespace berth::prove
