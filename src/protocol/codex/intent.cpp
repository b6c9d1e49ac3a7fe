// An intent is a security boundary that somebody else wrote: a word that is not known here is refused, since
// reading past it could only mean less restriction than was meant. Members that are not known are another
// matter: newer clients add them, and none of them has ever widened anything.
#include "protocol/codex/intent.hpp"

#include <array>

#include "base/strings.hpp"
#include "protocol/codex/deny_pattern.hpp"
#include "protocol/codex/path_uri.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kMaxEntries = 4096;
constexpr std::size_t kMaxRoots = 64;
constexpr std::size_t kMaxPattern = 4096;
constexpr std::size_t kMaxPatterns = std::size_t{64} << 10; ///< bytes of all: each path is held against each
constexpr std::string_view kBelowRoots = "codex-project-roots://";

Result<std::string> word_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto member, reader.at(name));
    return member.string();
}

template <class T, std::size_t N>
Result<T> pick(const json::Reader& reader, const std::array<std::pair<std::string_view, T>, N>& words)
{
    BERTH_TRY(const auto text, reader.string());
    for (const auto& [word, value] : words)
        if (text == word) return value;
    return reader.refuse("unknown variant '{}'", printable(text, 60));
}

Result<std::string> native(const json::Reader& reader)
{
    BERTH_TRY(const auto uri, reader.string());
    auto path = read_path(uri);
    if (path) return path;
    return fail_text(path.error().code, fmt::format("{}: {}", reader.path(), path.error().message));
}

/// "a/b": below a root, never out of it.
Result<std::string> relative(const json::Reader& reader)
{
    BERTH_TRY(const auto text, reader.string());
    if (text.size() > kMaxPattern || text.find('\0') != std::string::npos || text.starts_with('/'))
        return reader.refuse("'{}' is not a relative path", printable(text, 80));
    std::string out;
    for (const auto& part : split(text, '/')) {
        if (part.empty() || part == ".") continue;
        if (part == "..") return reader.refuse("'{}' leaves its root", printable(text, 80));
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

Result<SpecialPath> read_special(const json::Reader& reader)
{
    static constexpr std::array<std::pair<std::string_view, Special>, 7> kinds{{
        {"root", Special::Root},
        {"minimal", Special::Minimal},
        {"project_roots", Special::ProjectRoots},
        {"current_working_directory", Special::ProjectRoots},
        {"tmpdir", Special::Tmpdir},
        {"slash_tmp", Special::SlashTmp},
        {"unknown", Special::Unknown},
    }};
    SpecialPath out;
    BERTH_TRY(const auto kind, reader.at("kind"));
    BERTH_TRY(out.kind, pick(kind, kinds));
    BERTH_TRY(const auto subpath, reader.find("subpath"));
    if (subpath) {
        BERTH_TRY(out.subpath, relative(*subpath));
    }
    if (!out.subpath.empty() && out.kind != Special::ProjectRoots && out.kind != Special::Unknown)
        return subpath->refuse("only project_roots has places below it");
    return out;
}

Result<std::vector<GlobPath>> read_glob(const json::Reader& reader)
{
    BERTH_TRY(auto pattern, reader.string());
    const bool below_roots = pattern.starts_with(kBelowRoots);
    if (below_roots) pattern.erase(0, kBelowRoots.size());
    if (pattern.empty() || pattern.size() > kMaxPattern || pattern.find('\0') != std::string::npos)
        return reader.refuse("'{}' is not a pattern", printable(pattern, 80));
    const auto patterns = read_deny_pattern(pattern);
    if (!patterns) return reader.refuse("{}", patterns.error().message);
    std::vector<GlobPath> out;
    for (const auto& one : *patterns) out.push_back({.pattern = one, .below_roots = below_roots});
    return out;
}

/// One, or as many as its pattern has alternatives.
Status read_entry(const json::Reader& reader, std::vector<IntentEntry>& entries)
{
    static constexpr std::array<std::pair<std::string_view, FileAccess>, 4> accesses{{
        {"read", FileAccess::Read},
        {"write", FileAccess::Write},
        {"deny", FileAccess::Deny},
        {"none", FileAccess::Deny},
    }};
    IntentEntry out;
    BERTH_TRY(const auto access, reader.at("access"));
    BERTH_TRY(out.access, pick(access, accesses));
    BERTH_TRY(const auto behaviour, reader.find("missing_path_behavior"));
    if (behaviour) {
        BERTH_TRY(const auto word, behaviour->string());
        if (word != "skip") return behaviour->refuse("unknown variant '{}'", printable(word, 60));
        out.skip_missing = true;
    }
    BERTH_TRY(const auto path, reader.at("path"));
    BERTH_TRY(const auto type, word_at(path, "type"));
    if (type == "path") {
        BERTH_TRY(const auto member, path.at("path"));
        ExactPath exact;
        BERTH_TRY(exact.path, native(member));
        out.path = std::move(exact);
    } else if (type == "glob_pattern") {
        BERTH_TRY(const auto member, path.at("pattern"));
        BERTH_TRY(auto globs, read_glob(member));
        if (out.access != FileAccess::Deny) return access.refuse("a pattern can only deny");
        for (auto& glob : globs) {
            out.path = std::move(glob);
            entries.push_back(out);
        }
        return {};
    } else if (type == "special") {
        BERTH_TRY(const auto member, path.at("value"));
        BERTH_TRY(out.path, read_special(member));
    } else {
        return path.refuse("unknown type '{}'", printable(type, 60));
    }
    entries.push_back(std::move(out));
    return {};
}

Result<NetworkIntent> read_network(const json::Reader& reader)
{
    static constexpr std::array<std::pair<std::string_view, NetworkIntent>, 2> words{
        {{"restricted", NetworkIntent::Restricted}, {"enabled", NetworkIntent::Enabled}}};
    BERTH_TRY(const auto member, reader.at("network"));
    return pick(member, words);
}

Status read_file_system(const json::Reader& reader, Permissions& out)
{
    BERTH_TRY(const auto type, word_at(reader, "type"));
    if (type == "unrestricted") {
        out.unrestricted_files = true;
        return {};
    }
    if (type != "restricted") return reader.refuse("unknown type '{}'", printable(type, 60));
    BERTH_TRY(const auto depth, reader.find("glob_scan_max_depth"));
    if (depth) {
        BERTH_TRY([[maybe_unused]] const auto levels, depth->integer(1, INT64_MAX));
    }
    BERTH_TRY(const auto entries, reader.at("entries"));
    BERTH_TRY(const auto items, entries.array());
    if (items.size() > kMaxEntries)
        return entries.refuse("{} entries; at most {}", items.size(), kMaxEntries);
    std::size_t patterns = 0;
    for (const auto& item : items) {
        const auto before = out.entries.size();
        BERTH_CHECK(read_entry(item, out.entries));
        for (auto at = before; at < out.entries.size(); ++at)
            if (const auto* const glob = std::get_if<GlobPath>(&out.entries[at].path))
                patterns += glob->pattern.size();
        if (patterns > kMaxPatterns) return entries.refuse("patterns of more than {} bytes", kMaxPatterns);
    }
    return {};
}

Result<Permissions> read_permissions(const json::Reader& reader)
{
    Permissions out;
    BERTH_TRY(const auto type, word_at(reader, "type"));
    if (type == "disabled") {
        out.kind = Permissions::Kind::Disabled;
        out.unrestricted_files = true;
        out.network = NetworkIntent::Enabled;
    } else if (type == "external") {
        out.kind = Permissions::Kind::External;
        out.unrestricted_files = true;
        BERTH_TRY(out.network, read_network(reader));
    } else if (type == "managed") {
        BERTH_TRY(const auto files, reader.at("file_system"));
        BERTH_CHECK(read_file_system(files, out));
        BERTH_TRY(out.network, read_network(reader));
    } else {
        return reader.refuse("unknown type '{}'", printable(type, 60));
    }
    return out;
}

Status check_platform_words(const json::Reader& reader)
{
    // Of another platform, so it may be missing; yet a word nobody knows is as wrong here.
    static constexpr std::array<std::pair<std::string_view, int>, 4> levels{
        {{"disabled", 0}, {"restricted-token", 0}, {"elevated", 0}, {"mxc", 0}}};
    static constexpr std::array<std::pair<std::string_view, int>, 2> modes{
        {{"reconcile", 0}, {"preserve", 0}}};
    BERTH_TRY(const auto level, reader.find("windowsSandboxLevel"));
    if (level) {
        BERTH_TRY([[maybe_unused]] const auto known, pick(*level, levels));
    }
    BERTH_TRY(const auto mode, reader.find("windowsSandboxProxySettingsMode"));
    if (mode) {
        BERTH_TRY([[maybe_unused]] const auto known, pick(*mode, modes));
    }
    for (const auto* const name : {"useLegacyLandlock", "windowsSandboxPrivateDesktop"}) {
        BERTH_TRY(const auto flag, reader.find(name));
        if (flag) {
            BERTH_TRY([[maybe_unused]] const auto word, flag->boolean());
        }
    }
    return {};
}

json::Object special_object(const SpecialPath& path)
{
    static constexpr std::string_view names[] = {"root",   "minimal",   "project_roots",
                                                 "tmpdir", "slash_tmp", "unknown"};
    json::Object value;
    value["kind"] = names[static_cast<std::size_t>(path.kind)];
    if (path.kind == Special::Unknown) value["path"] = "";
    if (!path.subpath.empty()) value["subpath"] = path.subpath;
    json::Object out;
    out["type"] = "special";
    out["value"] = std::move(value);
    return out;
}

json::Object path_object(const IntentEntry& entry)
{
    if (const auto* special = std::get_if<SpecialPath>(&entry.path)) return special_object(*special);
    json::Object out;
    if (const auto* exact = std::get_if<ExactPath>(&entry.path)) {
        out["type"] = "path";
        out["path"] = path_uri(exact->path);
    } else {
        const auto& glob = std::get<GlobPath>(entry.path);
        out["type"] = "glob_pattern";
        out["pattern"] =
            (glob.below_roots ? std::string(kBelowRoots) : std::string{}) + write_deny_pattern(glob.pattern);
    }
    return out;
}

} // namespace

Result<Intent> read_intent(const json::Reader& reader)
{
    Intent out;
    BERTH_TRY(const auto permissions, reader.at("permissions"));
    BERTH_TRY(out.permissions, read_permissions(permissions));
    BERTH_CHECK(check_platform_words(reader));
    BERTH_TRY(const auto cwd, reader.find("cwd"));
    if (cwd) {
        BERTH_TRY(out.cwd, native(*cwd));
    }
    BERTH_TRY(const auto roots, reader.find("workspaceRoots"));
    if (!roots) return out;
    BERTH_TRY(const auto items, roots->array());
    if (items.size() > kMaxRoots) return roots->refuse("{} roots; at most {}", items.size(), kMaxRoots);
    out.roots_given = true;
    for (const auto& item : items) {
        BERTH_TRY(auto path, native(item));
        out.workspace_roots.push_back(std::move(path));
    }
    return out;
}

json::Object write_intent(const Intent& intent)
{
    static constexpr std::string_view accesses[] = {"deny", "read", "write"};
    static constexpr std::string_view networks[] = {"restricted", "enabled"};
    static constexpr std::string_view kinds[] = {"managed", "disabled", "external"};
    const auto& from = intent.permissions;
    json::Object permissions;
    permissions["type"] = kinds[static_cast<std::size_t>(from.kind)];
    if (from.kind == Permissions::Kind::Managed) {
        json::Object files;
        files["type"] = from.unrestricted_files ? "unrestricted" : "restricted";
        if (!from.unrestricted_files) {
            json::Array entries;
            for (const auto& entry : from.entries) {
                json::Object one;
                one["path"] = path_object(entry);
                one["access"] = accesses[static_cast<std::size_t>(entry.access)];
                if (entry.skip_missing) one["missing_path_behavior"] = "skip";
                entries.emplace_back(std::move(one));
            }
            files["entries"] = std::move(entries);
        }
        permissions["file_system"] = std::move(files);
    }
    if (from.kind != Permissions::Kind::Disabled)
        permissions["network"] = networks[static_cast<std::size_t>(from.network)];
    json::Object out;
    out["permissions"] = std::move(permissions);
    if (intent.cwd) out["cwd"] = path_uri(*intent.cwd);
    if (intent.roots_given) {
        json::Array roots;
        for (const auto& root : intent.workspace_roots) roots.emplace_back(path_uri(root));
        out["workspaceRoots"] = std::move(roots);
    }
    out["windowsSandboxLevel"] = "disabled";
    return out;
}

} // namespace berth::codex
