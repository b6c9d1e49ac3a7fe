// A client's words on top of a sandbox. Its paths are the sandbox's own, so they are looked up there; whoever
// works inside may exchange them at any time, and nothing here is trusted to stay as it was seen: the backend
// resolves every rule again without following a link, and refuses what has turned into one. Nothing becomes
// wider than the sandbox: each rule is cut to what its policy grants at that place.
#include "server/codex/sandbox_intent.hpp"

#include <algorithm>
#include <map>

#include "base/strings.hpp"
#include "core/admit.hpp"
#include "policy/bind.hpp"
#include "policy/target.hpp"
#include "server/codex/binder.hpp"
#include "server/codex/git_file.hpp"

namespace berth::codex {

namespace {

using policy::Access;
using policy::at_or_below;

constexpr std::size_t kMaxRules = 4096;

Access access_of(FileAccess access)
{
    switch (access) {
    case FileAccess::Deny: return Access::Deny;
    case FileAccess::Read: return Access::Read;
    case FileAccess::Write: return Access::Write;
    }
    return Access::Deny;
}

std::string join(const std::string& base, const std::string& below)
{
    if (below.empty()) return base;
    return base == "/" ? "/" + below : base + "/" + below;
}

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 || slash == std::string::npos ? "/" : path.substr(0, slash);
}

policy::Target target_of(const std::string& path)
{
    if (path == "/") return policy::Symbolic{policy::Symbol::Root, {}};
    return policy::Path{path};
}

class Narrowing {
public:
    Narrowing(Around around, const Intent& intent, const std::string& cwd)
        : around_(around), looker_(around), intent_(intent), outer_(around.spec.policy),
          cwd_(intent.cwd.value_or(cwd))
    {
        for (const auto& mount : around.spec.mounts)
            if (mount.workspace) places_.workspaces.push_back(mount.target);
        if (around.spec.user == "root") places_.home = "/root";
    }

    Task<Result<Narrowed>> run()
    {
        if (intent_.permissions.unrestricted_files) {
            BERTH_CO_CHECK(take_over());
        } else {
            BERTH_CO_CHECK(co_await find_roots());
            for (const auto& entry : intent_.permissions.entries) {
                BERTH_CO_CHECK(co_await add_entry(entry));
                if (rules_.size() + globs_.size() > kMaxRules)
                    co_return fail(Code::Invalid, "the intent has more than {} rules", kMaxRules);
            }
            BERTH_CO_CHECK(drop_missing_grants());
            BERTH_CO_CHECK(co_await protect_names());
            drop_missing_reads();
            BERTH_CO_CHECK(write_rules());
            BERTH_CO_CHECK(check_links());
        }
        policy_.name = "codex";
        policy_.limits = {}; // the sandbox's hold around it
        policy_.privileges = policy::Privileges::None;
        policy_.nested_namespaces = outer_.nested_namespaces;
        policy_.devices = outer_.devices;
        set_network();
        BERTH_CO_CHECK(check_held());
        co_return std::move(out_);
    }

private:
    struct Rule {
        Access access = Access::Read;
        bool missing = false;
        bool skip = false;
    };

    Task<Status> find_roots()
    {
        std::vector<std::string> asked = intent_.workspace_roots;
        if (!intent_.roots_given && !cwd_.empty()) asked = {cwd_};
        if (asked.empty() && !intent_.roots_given) BERTH_CO_CHECK(refuse_rootless(intent_));
        for (const auto& root : asked) {
            BERTH_CO_TRY(auto seen, co_await looker_.look(root));
            remember_links(seen);
            if (seen.missing)
                out_.notes.push_back(fmt::format("workspace root {} is not here", printable(root, 120)));
            else
                roots_.push_back(std::move(seen.real));
        }
        co_return Status{};
    }

    Task<Status> add_entry(const IntentEntry& entry)
    {
        const Access access = access_of(entry.access);
        if (const auto* exact = std::get_if<ExactPath>(&entry.path))
            co_return co_await add(exact->path, access, entry.skip_missing);
        if (const auto* glob = std::get_if<GlobPath>(&entry.path)) co_return co_await add_glob(*glob);
        const auto& special = std::get<SpecialPath>(entry.path);
        switch (special.kind) {
        case Special::Root: put("/", {.access = access}); break;
        case Special::Minimal:
            for (const auto& place : places_.minimal) {
                BERTH_CO_TRY(const auto there, co_await looker_.entry(place));
                if (there) put(place, {.access = access});
            }
            break;
        case Special::ProjectRoots:
            for (const auto& root : roots_)
                BERTH_CO_CHECK(co_await add(join(root, special.subpath), access, entry.skip_missing));
            break;
        case Special::Tmpdir: {
            const auto own = around_.spec.env.find("TMPDIR");
            if (own == around_.spec.env.end() || !own->second.starts_with('/')) break;
            temporary_.push_back(own->second);
            BERTH_CO_CHECK(co_await add(own->second, access, false));
            break;
        }
        case Special::SlashTmp:
            temporary_.emplace_back("/tmp");
            BERTH_CO_CHECK(co_await add("/tmp", access, false));
            break;
        case Special::Unknown: out_.notes.emplace_back("an unknown symbol grants nothing"); break;
        }
        co_return Status{};
    }

    Task<Status> add(std::string path, Access access, bool skip)
    {
        BERTH_CO_TRY(const auto seen, co_await looker_.look(std::move(path)));
        remember_links(seen);
        put(seen.real, {.access = access, .missing = seen.missing, .skip = skip});
        co_return Status{};
    }

    void remember_links(const Seen& seen)
    {
        links_.insert(links_.end(), seen.links.begin(), seen.links.end());
    }

    /// On one path deny beats write, and write beats read.
    void put(const std::string& path, Rule rule)
    {
        const auto [at, fresh] = rules_.try_emplace(path, rule);
        const auto rank = [](Access access) {
            return access == Access::Deny ? 2 : access == Access::Write ? 1 : 0;
        };
        if (!fresh && rank(rule.access) > rank(at->second.access)) at->second.access = rule.access;
    }

    Task<Status> add_glob(const GlobPath& glob)
    {
        std::vector<std::string> places{""};
        if (glob.below_roots)
            places = roots_;
        else if (!glob.pattern.starts_with('/') && cwd_.empty())
            co_return fail(Code::Invalid, "the relative pattern '{}' needs a cwd",
                           printable(glob.pattern, 80));
        else if (!glob.pattern.starts_with('/'))
            places = {cwd_};
        for (const auto& place : places) {
            std::string pattern = policy::escape_pattern(place);
            if (!glob.pattern.starts_with('/')) pattern += '/';
            BERTH_CO_CHECK(co_await add_pattern(pattern + glob.pattern));
        }
        co_return Status{};
    }

    /// As it is written, and where its beginning really leads: files are asked for by both names.
    Task<Status> add_pattern(std::string pattern)
    {
        BERTH_CO_TRY(const auto target, policy::parse_target(pattern));
        const auto* const set = std::get_if<policy::Glob>(&target);
        if (set == nullptr) { // a pattern of one name
            const auto* const path = std::get_if<policy::Path>(&target);
            co_return co_await add(path == nullptr ? "/" : path->text, Access::Deny, false);
        }
        globs_.push_back({Access::Deny, *set});
        const std::string plain(policy::literal_prefix(set->text));
        BERTH_CO_TRY(const auto seen, co_await looker_.look(plain));
        remember_links(seen);
        if (seen.real != plain)
            globs_.push_back(
                {Access::Deny, policy::Glob{(seen.real == "/" ? "" : policy::escape_pattern(seen.real)) +
                                            set->text.substr(plain.size())}});
        co_return Status{};
    }

    [[nodiscard]] Access by_rules(std::string at) const
    {
        for (;; at = parent_of(at)) {
            const auto found = rules_.find(at);
            if (found != rules_.end() && !found->second.missing) return found->second.access;
            if (at == "/") return Access::Deny;
        }
    }

    Status drop_missing_grants()
    {
        for (auto at = rules_.begin(); at != rules_.end();) {
            const auto& [path, rule] = *at;
            if (rule.access != Access::Write) {
                ++at;
                continue;
            }
            for (const std::string_view kernel : {"/proc", "/sys", "/dev"})
                if (at_or_below(path, kernel))
                    return fail(Code::Unsupported, "{} cannot be granted: each sandbox has its own {}",
                                printable(path, 120), kernel);
            if (rule.missing) out_.notes.push_back(fmt::format("{} is not here", printable(path, 120)));
            at = rule.missing ? rules_.erase(at) : std::next(at);
        }
        return {};
    }

    Task<Status> protect_names()
    {
        std::vector<std::string> writable;
        for (const auto& [path, rule] : rules_)
            if (rule.access == Access::Write) writable.push_back(path);
        if (std::ranges::find(writable, "/") != writable.end()) co_return Status{};
        for (const auto name : kProtectedNames) {
            bool lifted = false;
            for (const auto& root : writable) {
                const bool own = std::ranges::find(roots_, root) != roots_.end();
                if (!own && std::ranges::find(temporary_, root) != temporary_.end()) continue;
                const std::string there = join(root, std::string(name));
                // An entry that makes such a name writable, or something in it, lifts the protection there.
                if (std::ranges::any_of(writable, [&](const auto& w) { return at_or_below(w, there); })) {
                    lifted = true;
                    continue;
                }
                if (policy::components(root).back() == name) continue;
                BERTH_CO_CHECK(co_await protect(there));
            }
            if (!lifted) names_.emplace_back(name);
        }
        co_return Status{};
    }

    Task<Status> protect(const std::string& there)
    {
        BERTH_CO_TRY(const auto seen, co_await looker_.look(there));
        remember_links(seen);
        put(seen.real, {.access = Access::Read, .missing = seen.missing});
        rules_[seen.real].skip = false; // it must not be made either
        if (seen.missing || !there.ends_with("/.git")) co_return Status{};
        // A worktree's ".git" is a file that names the real directory.
        BERTH_CO_TRY(const auto entry, co_await looker_.entry(seen.real));
        if (!entry || entry->kind != FileEntry::Kind::Regular || entry->size > kGitFile) co_return Status{};
        const auto text = co_await around_.backend.read_file(
            around_.handle, {.path = seen.real, .user = {}, .follow = true}, kGitFile);
        if (!text) co_return Status{};
        for (const auto& path : named_git_directories(*text)) {
            BERTH_CO_TRY(const auto real,
                         co_await looker_.look(path.starts_with('/') ? path : join(parent_of(there), path)));
            if (!real.missing && by_rules(real.real) == Access::Write)
                put(real.real, {.access = Access::Read});
        }
        co_return Status{};
    }

    /// Of what is not there, only what a command could make is worth a rule.
    void drop_missing_reads()
    {
        std::erase_if(rules_, [&](const auto& entry) {
            const auto& [path, rule] = entry;
            if (!rule.missing || rule.access != Access::Read) return false;
            return rule.skip || by_rules(parent_of(path)) != Access::Write;
        });
    }

    /// The sandbox's own rules, with its symbols in their places.
    Status take_over()
    {
        BERTH_TRY(const auto given, policy::bind_files(outer_, places_));
        for (const auto& rule : given.rules)
            policy_.files.push_back({rule.access, rule.path.empty()
                                                      ? policy::Target(policy::Glob{rule.pattern})
                                                      : target_of(rule.path)});
        policy_.protected_names = outer_.protected_names;
        return {};
    }

    /// The rules, cut to what the sandbox's own policy gives.
    Status write_rules()
    {
        BERTH_TRY(const auto given, policy::bind_files(outer_, places_));
        std::map<std::string, Access> all;
        for (const auto& [path, rule] : rules_) {
            const Access most = given.decide(path);
            if (rule.access > most)
                out_.notes.push_back(fmt::format("{} is no more than {} in this sandbox",
                                                 printable(path, 120), to_string(most)));
            all[path] = std::min(rule.access, most);
        }
        const auto write = [&] {
            policy_.files = globs_;
            for (const auto& [path, access] : all) policy_.files.push_back({access, target_of(path)});
        };
        write();
        if (policy_.files.empty()) return fail(Code::Invalid, "the intent grants nothing that is here");
        BERTH_TRY(const auto asked, policy::bind_files(policy_, {}));
        for (const auto& rule : given.rules) {
            if (!rule.pattern.empty() && rule.access != Access::Write)
                globs_.push_back({rule.access, policy::Glob{rule.pattern}});
            if (!rule.path.empty() && asked.decide(rule.path) > given.decide(rule.path))
                all[rule.path] = given.decide(rule.path);
        }
        write();
        const bool writes =
            std::ranges::any_of(all, [](const auto& rule) { return rule.second == Access::Write; });
        if (!writes) return {};
        policy_.protected_names = outer_.protected_names;
        // They may be there at any depth; they are held there as on the host.
        for (const auto& name : names_)
            if (std::ranges::find(policy_.protected_names, name) == policy_.protected_names.end())
                policy_.protected_names.push_back(name);
        return {};
    }

    /// A link that the command could replace would turn a rule to another place the next time.
    Status check_links()
    {
        BERTH_TRY(const auto bound, policy::bind_files(policy_, {}));
        for (const auto& directory : links_)
            if (bound.decide(directory) == Access::Write)
                return fail(Code::Unsupported,
                            "a path leads through a link in {}, which the command could replace",
                            printable(directory, 120));
        return {};
    }

    void set_network()
    {
        const bool wanted = intent_.permissions.network == NetworkIntent::Enabled;
        policy_.network = wanted ? outer_.network : policy::Network::Off;
        policy_.allow = wanted ? outer_.allow : std::vector<policy::NetworkRule>{};
        if (wanted && outer_.network == policy::Network::Off)
            out_.notes.emplace_back("the intent allows the network, this sandbox has none");
    }

    [[nodiscard]] bool shared(const std::string& path) const
    {
        const auto around = [&](const std::string& target) { return at_or_below(path, target); };
        return std::ranges::any_of(
                   around_.spec.mounts,
                   [&](const Mount& m) { return m.mode != Mount::Mode::Copy && around(m.target); }) ||
               std::ranges::any_of(around_.spec.volumes, [&](const Volume& v) { return around(v.target); });
    }

    Status check_held()
    {
        auto outer = outer_;
        outer.limits = {};
        outer.privileges = policy::Privileges::None;
        // As much as the sandbox itself has: nothing is to be added to what holds it.
        if (policy::check_narrower(outer, policy_, places_)) return {};
        const auto have = around_.backend.capabilities();
        if (!have.can(Operation::ExecPolicy))
            return unsupported(Operation::ExecPolicy, around_.backend.name());
        BERTH_CHECK(policy::admit(policy::demands(policy_, accepted_tier(have.holds)), have.holds));
        const auto takes = [](const policy::FileRule& rule) { return rule.access == Access::Deny; };
        BERTH_TRY(const auto bound, policy::bind_files(policy_, places_));
        out_.reads_all = intent_.permissions.unrestricted_files ||
                         (bound.decide("/") != Access::Deny && std::ranges::none_of(policy_.files, takes));
        for (const auto& [path, rule] : rules_)
            if (rule.missing && rule.access != Access::Write &&
                bound.decide(parent_of(path)) == Access::Write && !shared(path))
                out_.held.push_back(path);
        out_.policy = std::move(policy_);
        return {};
    }

    Around around_;
    Looker looker_;
    const Intent& intent_;
    const policy::Policy& outer_;
    std::string cwd_;
    policy::Roots places_;
    std::vector<std::string> roots_;
    std::vector<std::string> temporary_;
    std::vector<std::string> links_;
    std::vector<std::string> names_; ///< protected everywhere
    std::map<std::string, Rule> rules_;
    std::vector<policy::FileRule> globs_;
    policy::Policy policy_;
    Narrowed out_;
};

} // namespace

Status Narrowed::check_name(const std::string& path, Touch touch) const
{
    if (!policy) return {};
    if (is_held(path)) return fail_with(touch == Touch::Read ? ENOENT : EROFS, "{}", printable(path));
    BERTH_TRY(const auto bound, policy::bind_files(*policy, {}));
    if (bound.decide(path) != Access::Deny) return {};
    const bool leads = std::ranges::any_of(bound.rules, [&](const policy::BoundRule& rule) {
        return rule.access != Access::Deny && !rule.path.empty() && at_or_below(rule.path, path);
    });
    if (leads) return {};
    return fail_with(EACCES, "{}", printable(path));
}

bool Narrowed::is_held(std::string_view path) const
{
    return std::ranges::any_of(held, [&](const std::string& name) { return at_or_below(path, name); });
}

Task<Result<Narrowed>> narrow_to(Around around, std::optional<Intent> intent, std::string cwd)
{
    if (!intent) co_return Narrowed{};
    Narrowing narrowing(around, *intent, cwd);
    co_return co_await narrowing.run();
}

} // namespace berth::codex
