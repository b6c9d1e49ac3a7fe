// One command may run under a policy of its own, but never a wider one: this file is what stands between
// a client's exec request and the sandbox's policy. It is sound rather than complete: what it passes is
// narrower for every path there can be, not only for the ones that exist.
//
// Why a few points are enough: with paths alone the answer is the same for all paths whose deepest rule
// (of both policies) is the same, so it is compared at each rule and at "/". A pattern covers all below
// what it matches, so a point it covers stands for its whole subtree too. Patterns that begin to cover
// somewhere between the points are compared on their own.
#include <algorithm>
#include <set>

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/network_host.hpp"
#include "policy/target.hpp"

namespace berth::policy {

namespace {

/// Collects what is wider, in words.
class Wider {
public:
    template <class... Args> void add(fmt::format_string<Args...> format, Args&&... args)
    {
        found_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }

    [[nodiscard]] Status status() const
    {
        if (found_.empty()) return {};
        return fail(Code::Denied, "wider than the policy around it: {}", fmt::join(found_, "; "));
    }

private:
    std::vector<std::string> found_;
};

bool contains_name(const std::vector<std::string>& names, std::string_view name)
{
    return std::ranges::find(names, name) != names.end();
}

bool writes(const BoundFiles& files)
{
    return files.empty() ||
           std::ranges::find(files.rules, Access::Write, &BoundRule::access) != files.rules.end();
}

/// Every access the rules give somewhere at or below `place`: its own, those of rules below it, and
/// those of patterns that could match there.
std::set<Access> accesses_below(const BoundFiles& files, std::string_view place)
{
    std::set<Access> all{files.decide(place)};
    for (const auto& rule : files.rules) {
        const bool around = !rule.pattern.empty() && at_or_below(place, rule.place());
        if (around || at_or_below(rule.place(), place)) all.insert(rule.access);
    }
    return all;
}

const BoundRule* find_pattern(const BoundFiles& files, const std::string& pattern)
{
    const auto found = std::ranges::find(files.rules, pattern, &BoundRule::pattern);
    return found == files.rules.end() ? nullptr : &*found;
}

void compare_points(const BoundFiles& inner, const BoundFiles& outer, Wider& wider)
{
    std::set<std::string> points{"/"};
    for (const auto* files : {&inner, &outer})
        for (const auto& rule : files->rules)
            if (!rule.path.empty()) points.insert(rule.path);
    for (const auto& point : points) {
        const Access asked = inner.decide(point);
        const Access given = outer.decide(point);
        if (asked > given)
            wider.add("{} {} ({} there)", to_string(asked), printable(point, 80), to_string(given));
    }
}

/// What `outer` takes away by pattern, `inner` must take away too, or not have anywhere near.
void compare_outer_patterns(const BoundFiles& inner, const BoundFiles& outer, Wider& wider)
{
    for (const auto& rule : outer.rules) {
        if (rule.pattern.empty() || rule.access == Access::Write) continue;
        if (const auto* same = find_pattern(inner, rule.pattern);
            same != nullptr && same->access <= rule.access)
            continue;
        const Access most = *accesses_below(inner, rule.place()).rbegin();
        if (most > rule.access)
            wider.add("{} {} ({} there)", to_string(most), printable(rule.source, 80),
                      to_string(rule.access));
    }
}

/// Whether `outer` grants by the same pattern. No writing below a protected name: there the answer also
/// depends on which of outer's rules makes the place writable, and only `decide` knows that.
bool grants_alike(const BoundFiles& outer, const BoundRule& rule)
{
    const auto* same = find_pattern(outer, rule.pattern);
    if (same == nullptr || same->access < rule.access) return false;
    if (rule.access != Access::Write) return true;
    return std::ranges::none_of(components(rule.place()), [&](std::string_view part) {
        return contains_name(outer.protected_names, part);
    });
}

/// What `inner` grants by pattern, `outer` must grant by the same, or everywhere near.
void compare_inner_patterns(const BoundFiles& inner, const BoundFiles& outer, Wider& wider)
{
    for (const auto& rule : inner.rules) {
        if (rule.pattern.empty() || rule.access == Access::Deny) continue;
        if (grants_alike(outer, rule)) continue;
        const Access least = *accesses_below(outer, rule.place()).begin();
        if (rule.access > least)
            wider.add("{} {} ({} there)", to_string(rule.access), printable(rule.source, 80),
                      to_string(least));
    }
}

void compare_files(const BoundFiles& inner, const BoundFiles& outer, Wider& wider)
{
    compare_points(inner, outer, wider);
    compare_outer_patterns(inner, outer, wider);
    compare_inner_patterns(inner, outer, wider);
    if (!writes(inner)) return;
    for (const auto& name : outer.protected_names)
        if (!contains_name(inner.protected_names, name))
            wider.add("write {} (protected there)", printable(name, 80));
}

template <class T> bool within(const std::vector<T>& inner, const std::vector<T>& outer)
{
    // Empty is "every one" on both sides.
    if (outer.empty()) return true;
    return !inner.empty() && std::ranges::all_of(inner, [&](const T& item) {
        return std::ranges::find(outer, item) != outer.end();
    });
}

bool reaches(const Policy& outer, const NetworkRule& rule)
{
    if (outer.network == Network::Host) return true;
    // "open" never means private addresses, and whether a literal one is private is the proxy's to say.
    if (outer.network == Network::Open) return !is_address(rule.host);
    return std::ranges::any_of(outer.allow, [&](const NetworkRule& given) {
        return host_covers(given.host, rule.host) && within(rule.ports, given.ports) &&
               within(rule.methods, given.methods);
    });
}

void compare_network(const Policy& inner, const Policy& outer, Wider& wider)
{
    if (inner.network > outer.network)
        return wider.add("network {} ({} there)", to_string(inner.network), to_string(outer.network));
    if (inner.network != Network::Allow) return;
    for (const auto& rule : inner.allow)
        if (!reaches(outer, rule)) wider.add("network allow {} (not there)", printable(rule.host, 80));
}

template <class T, class Show>
void compare_limit(std::string_view what, const std::optional<T>& inner, const std::optional<T>& outer,
                   Show&& words, Wider& wider)
{
    if (inner && outer && *inner > *outer) wider.add("{} {} ({} there)", what, words(*inner), words(*outer));
}

void compare_limits(const Limits& inner, const Limits& outer, Wider& wider)
{
    const auto words = [](const auto& value) { return show(value); };
    const auto number = [](const auto& value) { return fmt::format("{}", value); };
    compare_limit("memory", inner.memory, outer.memory, words, wider);
    compare_limit("cpus", inner.cpus, outer.cpus, number, wider);
    compare_limit("pids", inner.pids, outer.pids, number, wider);
    compare_limit("disk", inner.disk, outer.disk, words, wider);
    compare_limit("open files", inner.open_files, outer.open_files, number, wider);
    compare_limit("wall time", inner.wall_time, outer.wall_time, words, wider);
}

} // namespace

Status check_narrower(const Policy& inner, const Policy& outer, const Roots& roots)
{
    BERTH_TRY(const auto inside, bind_files(inner, roots));
    BERTH_TRY(const auto around, bind_files(outer, roots));
    Wider wider;
    compare_files(inside, around, wider);
    compare_network(inner, outer, wider);
    compare_limits(inner.limits, outer.limits, wider);
    if (inner.privileges > outer.privileges) wider.add("privileges sudo (none there)");
    if (inner.nested_namespaces && !outer.nested_namespaces) wider.add("nested namespaces (not there)");
    for (const auto& device : inner.devices)
        if (!contains_name(outer.devices, device)) wider.add("device {} (not there)", printable(device, 80));
    return wider.status();
}

} // namespace berth::policy
