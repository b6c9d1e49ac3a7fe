// Probes for rules on files. Where a rule covers much, a few places stand for it: one that belongs to the
// user himself, so that a refusal is the wall's and not the owner's.

#include <algorithm>

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/demand.hpp"
#include "policy/target.hpp"
#include "prove/pattern.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

namespace {

using policy::Access;

/// The file rules, bound, and the places that stand for each access.
struct Places {
    policy::BoundFiles files;
    std::string read_only; ///< a directory that may be read and not written; may be empty
    std::string writable;
};

class Builder {
public:
    Builder(const Ground& ground, Plan& out) : ground_(ground), out_(out) {}

    [[nodiscard]] Status run()
    {
        const auto& policy = ground_.spec.policy;
        if (policy.files.empty()) {
            open_root();
            return {};
        }
        BERTH_CHECK(bind());
        bool whole = false;
        for (const auto& rule : policy.files) {
            rule_ = fmt::format("{} {}", to_string(rule.access), printable(to_string(rule.target)));
            const std::string source = to_string(rule.target);
            const std::size_t before = out_.probes.size();
            for (const auto& bound : places_.files.rules) {
                if (bound.source != source) continue;
                if (bound.path.empty()) {
                    pattern_rule(bound.pattern);
                    continue;
                }
                whole |= bound.path == "/";
                one_rule(bound);
            }
            if (out_.probes.size() == before && !policy::is_pattern(rule.target))
                untried("no place of it is here");
        }
        if (!whole) everything_else();
        if (!policy.protected_names.empty()) protect();
        return {};
    }

private:
    void add(std::string name, Must must, std::vector<std::string> act, bool absent_is_refusal = false)
    {
        // Where no wall stands these make something, in the place itself or at the end of a link.
        if (act[0] == "write" || act[0] == "create" || act[0] == "link") scratch(act[1]);
        out_.probes.push_back({.rule = rule_,
                               .name = std::move(name),
                               .must = must,
                               .act = std::move(act),
                               .absent_is_refusal = absent_is_refusal});
    }
    void untried(std::string why) { out_.untried.push_back({rule_, std::move(why)}); }
    void scratch(const std::string& place)
    {
        if (std::ranges::find(out_.scratch, place) == out_.scratch.end()) out_.scratch.push_back(place);
    }

    void open_root()
    {
        rule_ = "a private root";
        const std::string home = ground_.facts.home.empty() ? "/" : ground_.facts.home;
        for (const auto& place : {writable_place(ground_), home}) {
            add("work_in " + place, Must::Pass, {"work", place});
            scratch(place);
        }
    }

    [[nodiscard]] Status bind()
    {
        BERTH_TRY(places_.files, policy::bind_files(ground_.spec.policy, roots_of(ground_)));
        for (const auto& place : samples())
            if (places_.read_only.empty() && places_.files.decide(place) == Access::Read)
                places_.read_only = place;
        places_.writable = writable_place(ground_);
        return {};
    }

    [[nodiscard]] std::vector<std::string> samples() const
    {
        return {ground_.facts.home.empty() ? "/root" : ground_.facts.home, "/etc", "/usr", "/var", "/opt"};
    }

    void one_rule(const policy::BoundRule& rule)
    {
        switch (rule.access) {
        case Access::Read: return read_rule(rule.path);
        case Access::Write: return write_rule(rule.path);
        case Access::Deny: return deny_rule(rule.path);
        }
    }

    void read_rule(const std::string& path)
    {
        std::vector<std::string> targets{path};
        if (path == "/") {
            targets = samples();
            targets.emplace_back("/");
            targets.emplace_back("/etc/issue");
        }
        std::erase_if(targets, [&](const auto& one) { return places_.files.decide(one) != Access::Read; });
        for (const auto& target : targets) {
            add("write_directly " + target, Must::Fail, {"write", target});
            add("make_directory_in " + target, Must::Fail, {"create", target});
        }
        if (targets.empty()) return untried("other rules cover all of it");
        const std::string& first = targets.front();
        const std::string& last = targets.back(); // a file, where the rule is about everything
        add("rename_away " + last, Must::Fail, {"away", last});
        add("write_by_proc_root " + first, Must::Fail, {"by-proc", first});
        add("write_by_descriptor " + first, Must::Fail, {"reopen", first});
        add("remount_writable " + first, Must::Fail, {"remount", first});
        around(path == "/" ? last : first);
        const bool shown = path != "/";
        add("read " + (shown ? path : "/usr"), Must::Pass, {"read", shown ? path : "/usr"});
    }

    /// From a place that may be written to one that may not.
    void around(const std::string& target)
    {
        if (places_.writable.empty()) return;
        scratch(places_.writable);
        add(fmt::format("write_through_symlink {}", target), Must::Fail, {"link", target, places_.writable});
        add(fmt::format("write_by_hard_link {}", target), Must::Fail,
            {"hard-link", target, places_.writable});
    }

    void write_rule(const std::string& path)
    {
        scratch(path);
        add("work_in " + path, Must::Pass, {"work", path});
        const std::string parent = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
        if (path != "/" && places_.files.decide(parent) == Access::Read)
            add("leave_it_upwards " + parent, Must::Fail, {"create", parent});
        if (places_.read_only.empty())
            return untried("nothing is read-only: no way out of it could be tried");
        add("leave_it_by_symlink " + path, Must::Fail, {"link", places_.read_only, path});
        add("leave_it_by_hard_link " + path, Must::Fail, {"hard-link", "/etc", path});
    }

    void deny_rule(const std::string& path)
    {
        add("look_at " + path, Must::Fail, {"hidden", path});
        add("look_by_proc_root " + path, Must::Fail, {"hidden", "/proc/self/root" + path});
        add("write_directly " + path, Must::Fail, {"write", path});
        if (!places_.writable.empty()) add("rename_away " + path, Must::Fail, {"away", path});
        something_passes();
    }

    /// What a pattern names may not be there before the proof: it is put there from outside, later than the
    /// sandbox began.
    void pattern_rule(const std::string& pattern)
    {
        // Of two patterns that name the same thing each gets its own.
        const std::string& word = ground_.bait.word;
        const std::string token = fmt::format(
            "{}{}", word.substr(word.size() - std::min<std::size_t>(word.size(), 12)), out_.planted.size());
        const auto match = find_match(places_.files, pattern, writable_places(), token);
        if (!match) return untried("nothing of it lies where something of ours could be put");
        out_.planted.push_back(match->planted);
        scratch(match->beside);
        const auto& [planted, other, beside] = *match;
        add("read_a_match " + planted, Must::Fail, {"match-read", planted, word});
        add("rename_a_match_away " + planted, Must::Fail, {"match-away", planted, beside});
        add("read_a_match_by_hard_link " + planted, Must::Fail, {"match-link", planted, beside, word});
        add("read_a_match_through_symlink " + planted, Must::Fail, {"match-symlink", planted, beside, word});
        if (!other.empty()) {
            out_.spots.push_back(other);
            add("make_a_match " + other, Must::Fail, {"match-make", other, beside});
            add("rename_into_a_match " + other, Must::Fail, {"match-into", other, beside});
        }
        add("work_beside_a_match " + beside, Must::Pass, {"work", beside});
    }

    [[nodiscard]] std::vector<std::string> writable_places() const
    {
        std::vector<std::string> out;
        for (const auto& rule : places_.files.rules)
            if (rule.access == Access::Write && !rule.path.empty()) out.push_back(rule.path);
        if (!places_.writable.empty()) out.push_back(places_.writable);
        return out;
    }

    void something_passes()
    {
        const std::string& other = places_.read_only.empty() ? places_.writable : places_.read_only;
        if (!other.empty()) add("read " + other, Must::Pass, {"read", other});
    }

    void everything_else()
    {
        rule_ = "deny everything else";
        for (const char* place : {"/etc", "/home", "/root", "/var", "/srv", "/opt", "/usr", "/mnt", "/sys"}) {
            if (places_.files.decide(place) != Access::Deny) continue;
            const std::string within = std::string(place) + "/";
            const bool above =
                std::ranges::any_of(places_.files.rules,
                                    [&](const auto& rule) {
                                        return rule.access != Access::Deny && rule.path.starts_with(within);
                                    }) ||
                std::ranges::any_of(ground_.terrain.shown,
                                    [&](const auto& shown) { return shown.starts_with(within); });
            if (!above) add(fmt::format("look_at {}", place), Must::Fail, {"hidden", place}, true);
        }
        something_passes();
    }

    void protect()
    {
        const auto& names = ground_.spec.policy.protected_names;
        rule_ = printable(fmt::format("protect {}", fmt::join(names, " ")), 400);
        auto places = ground_.terrain.workspaces;
        for (const auto& mount : ground_.spec.mounts)
            if (mount.mode != Mount::Mode::ReadOnly) places.push_back(mount.target);
        std::erase_if(places, [&](const auto& one) { return places_.files.decide(one) != Access::Write; });
        for (const auto& place : places) protect_in(place, names);
        if (places.empty()) untried("no directory of the host may be written");
    }

    void protect_in(const std::string& place, const std::vector<std::string>& names)
    {
        scratch(place);
        for (const auto& name : names) {
            const std::string path = fmt::format("{}/{}", place, name);
            add("write_directly " + path, Must::Fail, {"write", path});
            add("rename_away " + path, Must::Fail, {"away", path});
            if (ground_.terrain.ours_alone) add("make " + path, Must::Fail, {"make-it", path});
        }
        const std::string first = fmt::format("{}/{}", place, names.front());
        // Where a missing name is kept by what it is called, another in its place says nothing.
        if (!ground_.terrain.whole_machine) add("make " + first, Must::Fail, {"make", first});
        add("write_by_proc_root " + first, Must::Fail, {"by-proc", first});
        add("write_by_descriptor " + first, Must::Fail, {"reopen", first});
        add("write_through_symlink " + first, Must::Fail, {"link", first, place});
        std::vector<std::string> deep{"deep", place};
        for (const auto& name : names)
            if (deep.size() < 14) deep.push_back(name);
        add("write_what_lies_deeper " + place, Must::Fail, std::move(deep));
        add("work_in " + place, Must::Pass, {"work", place});
    }

    const Ground& ground_;
    Plan& out_;
    Places places_;
    std::string rule_;
};

} // namespace

Status plan_files(const Ground& ground, Plan& out) { return Builder(ground, out).run(); }

} // namespace berth::prove
