#include "keeping/walls.hpp"

#include <sys/resource.h>

#include "base/hooks.hpp"
#include "sys/landlock.hpp"

namespace berth::keeping {

namespace {

constexpr std::uint64_t kDefaultOpenFiles = 20000;

} // namespace

void add_limits(sys::StepList& list, const policy::Limits& limits)
{
    // Less than a core file can be, and the one value with which the kernel starts no handler of the host
    // either.
    list.rlimit(RLIMIT_CORE, 1);
    // With one id inside, the kernel's count of its processes is the sandbox's.
    if (limits.pids && !hooks::wall_off("rlimits")) list.rlimit(RLIMIT_NPROC, *limits.pids);
    list.umask(022);
}

void add_open_files(sys::StepList& list, const policy::Limits& limits)
{
    list.rlimit(RLIMIT_NOFILE, limits.open_files.value_or(kDefaultOpenFiles));
}

void add_landlock(sys::StepList& list, const policy::BoundFiles& files, int abi, Domain domain)
{
    namespace ll = sys::landlock;
    if (abi == 0 || hooks::wall_off("landlock")) return;
    const bool file_rules = !files.empty();
    const std::uint64_t scopes = domain == Domain::ForFiles ? 0 : ll::scopes(abi);
    if (!file_rules && scopes == 0 && domain != Domain::Always) return;
    const std::uint64_t writing = file_rules ? ll::writing(abi) : 0;
    // A ruleset must handle something; what is allowed on / again restricts nothing.
    const std::uint64_t harmless = abi >= 2 ? ll::kRefer : ll::kMakeBlock;
    const std::uint64_t handled = writing != 0 ? writing : harmless;
    const auto rules = list.landlock_create(handled, 0, scopes);
    if (!file_rules) {
        list.landlock_path(rules, "/", harmless);
    } else {
        for (const auto& rule : files.rules)
            if (rule.access == policy::Access::Write && !rule.path.empty())
                list.landlock_path(rules, rule.path, writing, ENOENT);
        for (const char* own : {"/dev", "/proc"}) list.landlock_path(rules, own, writing);
    }
    list.landlock_apply(rules);
    list.close(rules);
}

void add_filter(sys::StepList& list, const sys::FilterOptions& options)
{
    if (hooks::wall_off("filter")) return;
    list.seccomp(sys::seccomp_filter(options));
}

} // namespace berth::keeping
