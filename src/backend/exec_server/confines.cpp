// Where our policy becomes the protocol's intent. It crosses the wire symbolic: the server knows its own
// places. Every rule has an entry that says the same or less; a rule without such an entry is refused, never
// left out.
#include "backend/exec_server/confines.hpp"

#include <algorithm>
#include <array>

#include "base/strings.hpp"
#include "policy/target.hpp"

namespace berth::exec_server {

namespace {

using codex::ExactPath;
using codex::FileAccess;
using codex::GlobPath;
using codex::IntentEntry;
using codex::Special;
using codex::SpecialPath;
using policy::Access;
using policy::Symbol;

FileAccess access_of(Access access)
{
    switch (access) {
    case Access::Deny: return FileAccess::Deny;
    case Access::Read: return FileAccess::Read;
    case Access::Write: return FileAccess::Write;
    }
    return FileAccess::Deny;
}

IntentEntry special(Special kind, FileAccess access, std::string below = {})
{
    return {.path = SpecialPath{.kind = kind, .subpath = std::move(below)}, .access = access};
}
IntentEntry exact(std::string path, FileAccess access)
{
    return {.path = ExactPath{std::move(path)}, .access = access};
}

class Writer {
public:
    Writer(const Layout& layout, bool private_root) : layout_(layout), private_root_(private_root) {}

    Status add(const policy::FileRule& rule)
    {
        const FileAccess access = access_of(rule.access);
        if (const auto* path = std::get_if<policy::Path>(&rule.target)) {
            out.push_back(exact(path->text, access));
            return {};
        }
        if (const auto* glob = std::get_if<policy::Glob>(&rule.target)) {
            if (rule.access != Access::Deny) return no_words(rule);
            const bool anywhere = glob->text.starts_with("**/");
            out.push_back(
                {.path = GlobPath{.pattern = (anywhere ? "/" : "") + glob->text}, .access = access});
            return {};
        }
        const auto& named = std::get<policy::Symbolic>(rule.target);
        if (policy::has_wildcard(named.below)) return add_pattern(rule, named);
        return add_symbol(rule, named, access);
    }

    /// The root is the sandbox's own: programs to read, its directories to use.
    void add_private_root(FileAccess access)
    {
        out.push_back(special(Special::Minimal, std::min(access, FileAccess::Read)));
        out.push_back(special(Special::ProjectRoots, access));
        out.push_back(exact(layout_.tmp, access));
    }

    /// Each name at the top of whatever may be written. Temporary directories are everybody's.
    Status protect(const policy::Policy& policy)
    {
        for (const auto& rule : policy.files) {
            if (rule.access != Access::Write || policy.protected_names.empty()) continue;
            const auto* const named = std::get_if<policy::Symbolic>(&rule.target);
            if (named != nullptr && named->symbol == Symbol::Tmpdir) continue;
            if (named == nullptr ||
                (named->symbol != Symbol::WorkspaceRoots && named->symbol != Symbol::Home))
                return fail(
                    Code::Unsupported,
                    "protect {} below {} {}: an exec-server can be told of names in the workspace alone",
                    printable(policy.protected_names.front(), 60), to_string(rule.access),
                    printable(to_string(rule.target), 120));
            for (const auto& name : policy.protected_names) {
                auto entry = special(Special::ProjectRoots, FileAccess::Read,
                                     named->below.empty() ? name : named->below + "/" + name);
                // These four it keeps from being made by itself, without putting anything there.
                entry.skip_missing = std::ranges::find(kTheirs, name) != kTheirs.end();
                out.push_back(std::move(entry));
            }
        }
        return {};
    }

    std::vector<IntentEntry> out;

private:
    static constexpr std::array<std::string_view, 4> kTheirs{".git", ".agents", ".codex", ".aws"};
    [[nodiscard]] static std::unexpected<Error> no_words(const policy::FileRule& rule)
    {
        return fail(Code::Unsupported, "{} {}: an exec-server has no words for it", to_string(rule.access),
                    printable(to_string(rule.target), 120));
    }

    Status add_pattern(const policy::FileRule& rule, const policy::Symbolic& named)
    {
        const bool here = named.symbol == Symbol::WorkspaceRoots || named.symbol == Symbol::Home;
        if (!here || rule.access != Access::Deny) return no_words(rule);
        out.push_back(
            {.path = GlobPath{.pattern = named.below, .below_roots = true}, .access = FileAccess::Deny});
        return {};
    }

    Status add_symbol(const policy::FileRule& rule, const policy::Symbolic& named, FileAccess access)
    {
        switch (named.symbol) {
        case Symbol::Root:
            if (private_root_) {
                add_private_root(access);
                return {};
            }
            if (access == FileAccess::Write)
                return fail(
                    Code::Unsupported,
                    "write :root: that is all of the server's machine; name what is written, or ask for "
                    "full-access with --net host");
            out.push_back(special(Special::Root, access));
            return {};
        case Symbol::Minimal:
            if (!named.below.empty()) return no_words(rule);
            out.push_back(special(Special::Minimal, access));
            return {};
        case Symbol::WorkspaceRoots:
        case Symbol::Home: out.push_back(special(Special::ProjectRoots, access, named.below)); return {};
        case Symbol::Tmpdir:
            for (const std::string_view place : {"/tmp", "/var/tmp"})
                if (!named.below.empty())
                    out.push_back(exact(fmt::format("{}/{}", place, named.below), access));
            if (!named.below.empty()) return {};
            out.push_back(special(Special::SlashTmp, access));
            out.push_back(special(Special::Tmpdir, access));
            // The protocol has no word for it: less is granted, nothing less is denied.
            if (access == FileAccess::Deny) out.push_back(exact("/var/tmp", access));
            return {};
        }
        return no_words(rule);
    }

    const Layout& layout_;
    bool private_root_;
};

// "$1": the workspace, then names. What cannot be looked into may be opened later by whoever closed it.
constexpr std::string_view kFindDeeper = R"sh(
d "$1"; p=$v; shift; n=
for a in "$@"; do d "$a"; set -- "$@" ${n:+-o} -name "$v"; shift; n=1; done
exec find "$p" -mindepth 2 \( "$@" \) -prune -print0
)sh";
constexpr std::size_t kMostDeeper = 1000;

} // namespace

Result<std::vector<std::string>> find_deeper(Server& server, const policy::Policy& policy,
                                             const policy::Policy& around, const Layout& layout)
{
    if (policy.protected_names.empty()) return std::vector<std::string>{};
    BERTH_TRY(const auto confines, confine(policy, around, layout));
    scripted::Command command{
        .script = std::string(kFindDeeper), .arguments = {layout.work}, .user = {}, .out = {}};
    command.arguments.insert(command.arguments.end(), policy.protected_names.begin(),
                             policy.protected_names.end());
    BERTH_TRY(const auto end, server.run(command, confines, layout.work));
    if (!end.status.success())
        return fail(Code::Unsupported, "protect {}: the workspace cannot be searched for such names: {}",
                    printable(policy.protected_names.front(), 60), printable(end.err, 200));
    auto found = split(end.out, '\0');
    std::erase_if(found, [&](const std::string& path) { return !path.starts_with(layout.work + "/"); });
    if (found.size() > kMostDeeper)
        return fail(Code::Unsupported, "protect {}: {} of such names in the workspace; at most {}",
                    printable(policy.protected_names.front(), 60), found.size(), kMostDeeper);
    return found;
}

Layout layout_of(const std::string& root, const std::string& native, std::string relay)
{
    Layout out;
    out.root = root;
    out.own = fmt::format("{}/{}", root, native);
    out.work = out.own + "/work";
    out.tmp = out.own + "/tmp";
    out.relay = std::move(relay);
    return out;
}

policy::Roots roots_of(const Layout& layout)
{
    policy::Roots out;
    out.workspaces = {layout.work};
    out.home = layout.work;
    return out;
}

bool unconfined(const policy::Policy& policy)
{
    return policy.name == "full-access" && policy.files.empty() && policy.network == policy::Network::Host;
}

Result<Confines> confine(const policy::Policy& policy, const policy::Policy& around, const Layout& layout,
                         const std::vector<std::string>& deeper)
{
    if (unconfined(policy) && unconfined(around)) return Confines{};
    if (policy.name == "full-access" && policy.files.empty())
        return fail(Code::Unsupported,
                    "full-access: on an exec-server that is its whole machine, and no network "
                    "rule holds there; say --net host as well, or take another policy");
    const bool private_root = around.files.empty() && !unconfined(around);
    Writer writer(layout, private_root);
    if (policy.files.empty()) writer.add_private_root(FileAccess::Write);
    for (const auto& rule : policy.files) BERTH_CHECK(writer.add(rule));
    BERTH_CHECK(writer.protect(policy));
    for (const auto& path : deeper) writer.out.push_back(exact(path, FileAccess::Read));
    // Sandboxes do not see each other: the deeper entry of a sandbox's own directory decides there.
    if (!private_root) {
        writer.out.push_back(exact(layout.root, FileAccess::Deny));
        const auto reads_all = [](const policy::FileRule& rule) {
            return rule.access == Access::Read &&
                   rule.target == policy::Target(policy::Symbolic{Symbol::Root, {}});
        };
        if (std::ranges::any_of(policy.files, reads_all))
            writer.out.push_back(special(Special::ProjectRoots, FileAccess::Read));
    }
    if (!layout.relay.empty())
        writer.out.push_back(exact(layout.relay.substr(0, layout.relay.rfind('/')), FileAccess::Read));
    codex::Intent out;
    out.permissions.entries = std::move(writer.out);
    if (policy.network == policy::Network::Host) out.permissions.network = codex::NetworkIntent::Enabled;
    out.cwd = layout.work;
    out.workspace_roots = {layout.work};
    out.roots_given = true;
    return out;
}

Confines confine_own(const std::string& root)
{
    codex::Intent out;
    out.permissions.entries = {special(Special::Minimal, FileAccess::Read), exact(root, FileAccess::Write)};
    out.cwd = root;
    out.workspace_roots = {root};
    out.roots_given = true;
    return out;
}

Confines confine_protected(const std::string& path)
{
    auto out = confine_own(path.substr(0, path.rfind('/')));
    out->permissions.entries.push_back(exact(path, FileAccess::Write));
    return out;
}

} // namespace berth::exec_server
