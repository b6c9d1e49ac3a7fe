// The place where a client's words become walls. Whoever wrote the intent may have wanted more than the
// operator grants, may be another machine that knows nothing of this one, and may name links that somebody
// else can replace. So every path is resolved here, once; what has no meaning here is skipped only where
// that takes something away from the command, and everything else that cannot be held is refused by name.
#include "server/codex/binder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "policy/target.hpp"
#include "server/codex/git_file.hpp"
#include "server/codex/real_paths.hpp"

namespace berth::codex {

namespace {

using policy::Access;
using policy::at_or_below;

constexpr std::string_view kMinimal[] = {"/usr", "/etc", "/nix/store", "/run/current-system/sw"};
/// Links into /usr on most machines, directories on others.
constexpr std::string_view kMinimalLinks[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

bool is_link(const std::string& path)
{
    struct stat st{};
    return ::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode);
}

bool is_directory(const std::string& path)
{
    struct stat st{};
    return ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

std::string join(const std::string& base, const std::string& below)
{
    if (below.empty()) return base;
    return base == "/" ? "/" + below : base + "/" + below;
}

Access access_of(FileAccess access)
{
    switch (access) {
    case FileAccess::Deny: return Access::Deny;
    case FileAccess::Read: return Access::Read;
    case FileAccess::Write: return Access::Write;
    }
    return Access::Deny;
}

constexpr std::size_t kMaxRules = 4096;

class Binder {
public:
    Binder(const Intent& intent, const std::string& cwd, const Ceiling& ceiling, const Places& places)
        : intent_(intent), cwd_(intent.cwd.value_or(cwd)), ceiling_(ceiling), places_(places)
    {
    }

    Result<Bound> run()
    {
        BERTH_CHECK(find_roots());
        for (const auto& entry : intent_.permissions.entries) {
            BERTH_CHECK(add_entry(entry));
            // Each root multiplies them; what nobody could mount is not resolved to the end.
            if (rules_.size() + globs_.size() > kMaxRules)
                return fail(Code::Invalid, "the intent has more than {} rules", kMaxRules);
        }
        BERTH_CHECK(check_granted());
        BERTH_CHECK(check_narrowings());
        BERTH_CHECK(protect_names());
        // Whatever was granted around them: what we keep is nobody's.
        for (const auto& own : {places_.state, places_.token})
            if (!own.empty() && by_rules(own) != Access::Deny)
                put(own, {.access = Access::Deny, .spelled = own});
        for (const auto& [path, rule] : rules_)
            bound_.policy.files.push_back({rule.access, policy::Path{path}});
        if (const auto root = rules_.find("/"); root != rules_.end())
            for (auto& rule : bound_.policy.files)
                if (rule.target == policy::Target(policy::Path{"/"}))
                    rule.target = policy::Symbolic{policy::Symbol::Root, {}};
        for (const auto& glob : globs_) bound_.policy.files.push_back({Access::Deny, policy::Glob{glob}});
        if (bound_.policy.files.empty()) return fail(Code::Invalid, "the intent grants nothing at all");
        bound_.policy.name = "codex";
        bound_.policy.limits = ceiling_.limits;
        BERTH_CHECK(set_network());
        BERTH_TRY(bound_.files, policy::bind_files(bound_.policy, {}));
        auto plain = bound_.policy;
        plain.protected_names.clear();
        BERTH_TRY(bound_.files_unprotected, policy::bind_files(plain, {}));
        add_mounts();
        return std::move(bound_);
    }

private:
    struct Rule {
        Access access = Access::Read;
        std::string spelled;
        bool missing = false;
        bool skip = false;
        bool explicit_path = false; ///< somebody wrote this very path
    };

    Status find_roots()
    {
        std::vector<std::string> asked = intent_.workspace_roots;
        // Older clients never send them; their workspace is the policy's directory.
        if (!intent_.roots_given && !cwd_.empty()) asked = {cwd_};
        if (asked.empty() && !intent_.roots_given) BERTH_CHECK(refuse_rootless(intent_));
        for (const auto& root : asked) {
            const auto real = real_.of(root);
            if (real && is_directory(*real)) {
                roots_.push_back(*real);
                spelled_roots_.push_back(root);
            } else
                bound_.notes.push_back(fmt::format("workspace root {} is not here", printable(root, 120)));
        }
        return {};
    }

    Status add_entry(const IntentEntry& entry)
    {
        const Access access = access_of(entry.access);
        if (const auto* exact = std::get_if<ExactPath>(&entry.path)) {
            add(exact->path, access, entry.skip_missing, true);
            return {};
        }
        if (const auto* glob = std::get_if<GlobPath>(&entry.path)) return add_glob(*glob);
        const auto& special = std::get<SpecialPath>(entry.path);
        switch (special.kind) {
        case Special::Root: add("/", access, false, false); break;
        case Special::Minimal:
            for (const auto place : kMinimal)
                if (is_directory(std::string(place))) add(std::string(place), access, false, false);
            for (const auto place : kMinimalLinks) add_as_spelled(std::string(place), access);
            break;
        case Special::ProjectRoots:
            for (const auto& root : roots_)
                add(join(root, special.subpath), access, entry.skip_missing, false);
            break;
        case Special::Tmpdir:
            if (!places_.tmpdir.empty()) add_temporary(places_.tmpdir, access);
            break;
        case Special::SlashTmp:
            if (is_directory("/tmp")) add_temporary("/tmp", access);
            break;
        case Special::Unknown: bound_.notes.emplace_back("an unknown symbol grants nothing"); break;
        }
        return {};
    }

    void add_temporary(const std::string& path, Access access)
    {
        if (const auto real = real_.of(path)) {
            own_.push_back(*real);
            bound_.temporary.push_back(*real); // everybody's: no name in them is protected
        }
        add(path, access, false, false);
    }

    void add(const std::string& path, Access access, bool skip, bool explicit_path)
    {
        const auto& real = real_.of(path);
        Rule rule{.access = access,
                  .spelled = path,
                  .missing = !real,
                  .skip = skip,
                  .explicit_path = explicit_path};
        put(real_.nearest(path), std::move(rule));
    }

    void add_as_spelled(const std::string& path, Access access)
    {
        if (::access(path.c_str(), F_OK) == 0) put(path, {.access = access, .spelled = path});
    }

    /// On one path deny beats write, and write beats read.
    void put(const std::string& path, Rule rule)
    {
        const auto [at, fresh] = rules_.try_emplace(path, rule);
        if (fresh) return;
        const auto rank = [](Access access) {
            return access == Access::Deny ? 2 : access == Access::Write ? 1 : 0;
        };
        if (rank(rule.access) > rank(at->second.access)) at->second.access = rule.access;
        at->second.explicit_path = at->second.explicit_path || rule.explicit_path;
    }

    Status add_glob(const GlobPath& glob)
    {
        std::vector<std::string> places{""};
        if (glob.below_roots)
            places = roots_;
        else if (!glob.pattern.starts_with('/') && cwd_.empty())
            return fail(Code::Invalid, "the relative pattern '{}' needs a cwd", printable(glob.pattern, 80));
        else if (!glob.pattern.starts_with('/'))
            places = {cwd_};
        for (const auto& place : places) {
            std::string pattern = policy::escape_pattern(place);
            if (!glob.pattern.starts_with('/')) pattern += '/';
            pattern += glob.pattern;
            BERTH_CHECK(add_pattern(pattern));
        }
        return {};
    }

    /// As it is written, and where its beginning really leads: files are asked for by both names.
    Status add_pattern(const std::string& pattern)
    {
        BERTH_TRY(const auto target, policy::parse_target(pattern));
        const auto* set = std::get_if<policy::Glob>(&target);
        if (set == nullptr) { // a pattern of one name
            const auto* const path = std::get_if<policy::Path>(&target);
            add(path == nullptr ? "/" : path->text, Access::Deny, false, true);
            return {};
        }
        globs_.push_back(set->text);
        const std::string plain(policy::literal_prefix(set->text));
        if (plain == "/") return {};
        pattern_places_.insert(plain);
        const auto real = real_.nearest(plain);
        if (real != plain)
            globs_.push_back((real == "/" ? "" : policy::escape_pattern(real)) +
                             set->text.substr(plain.size()));
        return {};
    }

    [[nodiscard]] Access by_rules(const std::string& path) const
    {
        for (std::string at = path;;) {
            const auto found = rules_.find(at);
            if (found != rules_.end() && !found->second.missing) return found->second.access;
            if (at == "/" || at.empty()) return Access::Deny;
            const auto slash = at.rfind('/');
            at.resize(slash == std::string::npos || slash == 0 ? 1 : slash);
            if (slash == std::string::npos) return Access::Deny;
        }
    }

    /// What is granted must exist, or be skipped; what is writable must lie where the operator says.
    Status check_granted()
    {
        for (auto at = rules_.begin(); at != rules_.end();) {
            const auto& [path, rule] = *at;
            if (rule.access == Access::Write) {
                if (rule.missing) {
                    bound_.notes.push_back(fmt::format("{} is not here", printable(rule.spelled, 120)));
                    at = rules_.erase(at);
                    continue;
                }
                BERTH_CHECK(check_writable(path));
            }
            ++at;
        }
        return {};
    }

    Status check_writable(const std::string& path)
    {
        if (path == "/")
            return fail(Code::Denied,
                        "it would make everything writable but what is narrower: that is not held here; "
                        "name what is written");
        for (const std::string_view kernel : {"/proc", "/sys", "/dev"})
            if (at_or_below(path, kernel))
                return fail(Code::Unsupported, "{} cannot be granted: each sandbox has its own {}",
                            printable(path, 120), kernel);
        if (at_or_below(path, places_.state))
            return fail(Code::Denied, "{} is the state of this executor", printable(path, 120));
        if (std::ranges::find(own_, path) != own_.end() || ceiling_.roots.empty()) return {};
        for (const auto& root : ceiling_.roots)
            if (at_or_below(path, root)) return {};
        return fail(Code::Denied, "{} is outside of what this executor serves ({})", printable(path, 120),
                    fmt::join(ceiling_.roots, ", "));
    }

    /// A rule must hold for the name it was written for, whatever the command does.
    Status check_narrowings()
    {
        for (const auto& root : spelled_roots_) BERTH_CHECK(check_links(root));
        for (const auto& place : pattern_places_) BERTH_CHECK(check_links(place));
        for (auto at = rules_.begin(); at != rules_.end();) {
            const auto& [path, rule] = *at;
            const auto slash = path.rfind('/');
            const std::string above = slash == 0 ? "/" : path.substr(0, slash);
            const bool below_writable = path != "/" && by_rules(above) == Access::Write;
            if (rule.spelled != path) BERTH_CHECK(check_links(rule.spelled));
            if (!rule.missing) {
                ++at;
                continue;
            }
            // Where a command could make it, the sandbox holds the name; elsewhere there is nothing to hold.
            if (below_writable && !rule.skip) {
                ++at;
                continue;
            }
            if (rule.access == Access::Read)
                bound_.notes.push_back(fmt::format("{} is not here", printable(rule.spelled, 120)));
            at = rule.access == Access::Read ? rules_.erase(at) : std::next(at);
        }
        return {};
    }

    /// A link on the way that the command could replace would turn the rule to another place.
    Status check_links(const std::string& spelled)
    {
        for (auto slash = spelled.find('/', 1);; slash = spelled.find('/', slash + 1)) {
            const std::string prefix = spelled.substr(0, slash);
            if (is_link(prefix)) {
                const auto up = prefix.rfind('/');
                const auto above = real_.of(up == 0 ? "/" : prefix.substr(0, up));
                if (above && by_rules(*above) == Access::Write)
                    return fail(Code::Unsupported,
                                "{} leads through the link {}, which the command could replace",
                                printable(spelled, 120), printable(prefix, 120));
            }
            if (slash == std::string::npos) return {};
        }
    }

    Status protect_names()
    {
        std::vector<std::string> writable;
        for (const auto& [path, rule] : rules_)
            if (rule.access == Access::Write && !temporary(path)) writable.push_back(path);
        if (writable.empty()) return {};
        for (const auto name : kProtectedNames) {
            for (const auto& root : writable) BERTH_CHECK(check_no_link(join(root, std::string(name))));
            // An entry that makes such a name writable, or something in it, lifts the protection there.
            const auto lifted = std::ranges::find_if(writable, [&](const std::string& path) {
                return std::ranges::any_of(writable, [&](const std::string& other) {
                    return other != path && at_or_below(path, other) &&
                           contains_component(std::string_view(path).substr(other.size()), name);
                });
            });
            if (lifted == writable.end()) {
                bound_.policy.protected_names.emplace_back(name);
                continue;
            }
            for (const auto& root : writable) {
                const std::string there = join(root, std::string(name));
                if (contains_component(root, name) || at_or_below(*lifted, there)) continue;
                if (!real_.of(there))
                    return fail(Code::Unsupported,
                                "{} is made writable, and {} must not be made: both at once cannot be held",
                                printable(*lifted, 120), printable(there, 120));
                put(there, {.access = Access::Read, .spelled = there});
            }
        }
        for (const auto& root : writable) protect_git_directory(root);
        return {};
    }

    /// What a protected name leads to is not protected, and the link could be replaced: no command is started
    /// beside one, so nothing is written through it either.
    static Status check_no_link(const std::string& there)
    {
        if (!is_link(there)) return {};
        return fail(Code::Unsupported,
                    "{} is a symbolic link and has a protected name: put a directory or file in its place",
                    printable(there, 120));
    }

    static bool contains_component(std::string_view path, std::string_view name)
    {
        const auto parts = policy::components(path);
        return std::ranges::find(parts, name) != parts.end();
    }

    /// A worktree's ".git" is a file that names the real directory.
    void protect_git_directory(const std::string& root)
    {
        // A command may have made it what it likes: a pipe that nobody writes to, a link.
        const std::string file = root + "/.git";
        const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        struct stat st{};
        if (!fd || ::fstat(fd.get(), &st) != 0 || !S_ISREG(st.st_mode)) return;
        const auto text = read_to_end(fd.get(), kGitFile, file);
        if (!text) return;
        for (const auto& path : named_git_directories(*text)) {
            const auto real = real_.of(path.starts_with('/') ? path : root + "/" + path);
            if (real && by_rules(*real) == Access::Write)
                put(*real, {.access = Access::Read, .spelled = *real});
        }
    }

    [[nodiscard]] bool temporary(const std::string& path) const
    {
        return std::ranges::find(bound_.temporary, path) != bound_.temporary.end() &&
               std::ranges::find(roots_, path) == roots_.end();
    }

    Status set_network()
    {
        const bool wanted = intent_.permissions.network == NetworkIntent::Enabled;
        bound_.policy.network = wanted && ceiling_.network ? policy::Network::Host : policy::Network::Off;
        if (wanted && !ceiling_.network)
            bound_.notes.emplace_back(
                "the intent allows the network, this executor grants none (--net host)");
        return {};
    }

    /// What a sandbox must be given of the host beside the view it starts with: what is written to, the
    /// workspaces, and temporary directories, which are not part of the view.
    void add_mounts()
    {
        std::map<std::string, bool> wanted; // whether it is a workspace
        for (const auto& [path, rule] : rules_)
            if (rule.access == Access::Write && (!inside_writable(path) || is_root(path)))
                wanted[path] = !temporary(path);
        for (const auto& root : roots_)
            if (bound_.files.decide(root) != Access::Deny && may_own(root)) wanted[root] = true;
        for (const std::string_view hidden : {"/tmp", "/var/tmp", "/run"}) {
            const std::string place(hidden);
            if (hidden != "/run" && is_directory(place) && !is_link(place) &&
                bound_.files.decide(place) != Access::Deny)
                wanted.try_emplace(place, false);
            for (const auto& [path, rule] : rules_)
                if (rule.access == Access::Read && !rule.missing && at_or_below(path, place) &&
                    path != place && !inside_writable(path) && (gains_nothing(path, place) || may_own(path)))
                    wanted.try_emplace(path, false);
        }
        // Named to be read: whoever could have it writable may have it so with the same rights.
        for (const auto& [path, rule] : rules_)
            if (rule.access == Access::Read && rule.explicit_path && !rule.missing && path != "/" &&
                !inside_writable(path) && may_own(path))
                wanted.try_emplace(path, false);
        wanted.erase("/");
        for (const auto& [path, workspace] : wanted) {
            struct stat st{};
            if (::stat(path.c_str(), &st) != 0 || (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))) continue;
            const auto mode = bound_.files.decide(path) == Access::Write || rule_writes(path)
                                  ? Mount::Mode::ReadWrite
                                  : Mount::Mode::ReadOnly;
            bound_.owners[path] = {st.st_uid, st.st_gid};
            bound_.mounts.push_back({.source = path, .target = path, .mode = mode, .workspace = workspace});
        }
    }

    /// Whether a command may be the owner of what lies there, as it is in a mount: only where it could write
    /// as well. A root that a client has named says nothing about that.
    [[nodiscard]] bool may_own(const std::string& path)
    {
        const auto served = check_writable(path);
        if (!served)
            bound_.notes.push_back(fmt::format("seen with a stranger's rights: {}", served.error().message));
        return served.has_value();
    }

    /// Whether a mount of it gives no right that a command has not in temporary directories anyway.
    [[nodiscard]] static bool gains_nothing(const std::string& path, const std::string& place)
    {
        if (::geteuid() != 0) return true;
        struct stat one{};
        struct stat other{};
        return place != "/run" && ::stat(path.c_str(), &one) == 0 && ::stat(place.c_str(), &other) == 0 &&
               one.st_uid == other.st_uid && one.st_gid == other.st_gid;
    }

    /// What lies in something writable is shown with it, and could be exchanged by a command meanwhile.
    [[nodiscard]] bool inside_writable(const std::string& path) const
    {
        return std::ranges::any_of(rules_, [&](const auto& entry) {
            return entry.second.access == Access::Write && entry.first != path &&
                   at_or_below(path, entry.first);
        });
    }
    [[nodiscard]] bool is_root(const std::string& path) const
    {
        return std::ranges::find(roots_, path) != roots_.end();
    }

    [[nodiscard]] bool rule_writes(const std::string& path) const
    {
        const auto at = rules_.find(path);
        return at != rules_.end() && at->second.access == Access::Write;
    }

    const Intent& intent_;
    std::string cwd_;
    const Ceiling& ceiling_;
    const Places& places_;
    RealPaths real_;
    std::vector<std::string> roots_; ///< resolved
    std::vector<std::string> spelled_roots_;
    std::vector<std::string> own_; ///< temporary directories of this executor: for every client to write
    std::map<std::string, Rule> rules_;
    std::vector<std::string> globs_;
    std::set<std::string> pattern_places_; ///< as written: where the patterns begin
    Bound bound_;
};

} // namespace

Status refuse_rootless(const Intent& intent)
{
    const bool needed = std::ranges::any_of(intent.permissions.entries, [](const IntentEntry& entry) {
        const auto* special = std::get_if<SpecialPath>(&entry.path);
        const auto* glob = std::get_if<GlobPath>(&entry.path);
        return (special != nullptr && special->kind == Special::ProjectRoots) ||
               (glob != nullptr && !glob->pattern.starts_with('/'));
    });
    if (!needed) return {};
    return fail(Code::Invalid, "project_roots without a working directory or workspace roots");
}

Result<Bound> bind_managed(const Intent& intent, const std::string& cwd, const Ceiling& ceiling,
                           const Places& places)
{
    return Binder(intent, cwd, ceiling, places).run();
}

} // namespace berth::codex
