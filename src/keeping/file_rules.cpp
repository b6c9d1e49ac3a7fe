// File rules as mounts. They protect files, inside and of mounted host directories, from a command
// that may not read or write them: what may not be written is mounted read-only, what may not be
// seen is covered, and where the rules name only what may be seen, the root is built from nothing
// but that. Everything is resolved without following a symlink, so that no link inside can turn a
// rule to another place; every clone is taken before the first mount changes.

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>

#include <set>
#include <span>

#include "base/hooks.hpp"
#include "keeping/file_rules.hpp"

namespace berth::keeping {

namespace {

using policy::Access;
using policy::BoundRule;

constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
constexpr std::uint64_t kInert = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

bool beneath(std::string_view path, std::string_view dir)
{
    if (dir == "/") return path != "/";
    return path.size() > dir.size() && path.starts_with(dir) && path[dir.size()] == '/';
}

/// The access that holds at the parent of a rule: that of the nearest rule above it.
Access around(const policy::BoundFiles& files, const BoundRule& rule)
{
    Access access = Access::Deny;
    std::size_t longest = 0;
    for (const auto& other : files.rules) {
        if (other.path.empty() || !beneath(rule.path, other.path)) continue;
        if (other.path.size() >= longest) {
            longest = other.path.size();
            access = other.access;
        }
    }
    return access;
}

struct Attachment {
    const BoundRule* rule;
    sys::Slot tree;           ///< Read, Write: a clone; Deny: an empty file to cover a file with
    sys::Slot directory = {}; ///< Deny: an empty directory to cover a directory with
};

/// `missing`: sys::kMissing where a rule may name what is not there, 0 where it must be.
sys::Slot clone_of(sys::StepList& list, const std::string& path, Access access, std::int32_t missing)
{
    const auto object = list.open_beneath({}, path, O_PATH | O_CLOEXEC, kNoLinks, missing);
    const auto tree = list.open_tree(object, AT_RECURSIVE, missing);
    if (access == Access::Read) list.mount_attr(tree, MOUNT_ATTR_RDONLY, {}, AT_RECURSIVE, missing);
    list.close(object, missing);
    return tree;
}

void attach(sys::StepList& list, const std::string& path, sys::Slot tree, std::int32_t missing)
{
    const auto target = list.open_beneath({}, path, O_PATH | O_CLOEXEC, kNoLinks, missing);
    list.move_mount(tree, target, missing);
    list.close(target, missing);
    list.close(tree, missing);
}

sys::Slot empty_tree(sys::StepList& list, std::string_view mode)
{
    const auto fs = list.fs_open("tmpfs");
    list.fs_string(fs, "mode", mode);
    list.fs_string(fs, "size", "256k");
    const auto tree = list.fs_mount(fs, kInert);
    list.close(fs);
    return tree;
}

/// An empty directory over a directory, an empty file over a file: one of the two fits.
void cover(sys::StepList& list, const Attachment& deny)
{
    list.cover(deny.rule->path, deny.directory, deny.tree);
    for (const auto tree : {deny.directory, deny.tree}) list.close(tree, sys::kMissing);
}

/// A mode-000 file and a mode-000 directory for each that is denied, to lie over it. They are made in
/// one file system, which no name leads to afterwards: what was at its place comes to lie over it, since an
/// unmount would wait for a grace period of the kernel.
void make_covers(sys::StepList& list, const policy::BoundFiles& files, std::span<Attachment* const> denied)
{
    if (denied.empty()) return;
    const auto before = list.open_tree("/dev/shm", AT_RECURSIVE);
    list.mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=256k,mode=700");
    list.make_file("/dev/shm/file", "", 0, ~0ull, ~0ull);
    for (std::size_t i = 0; i < denied.size(); ++i) {
        Attachment& deny = *denied[i];
        const std::string& path = deny.rule->path;
        std::vector<std::string> inner; // what is allowed again below it needs a place to be shown at
        for (const auto& rule : files.rules)
            if (!rule.path.empty() && rule.access != Access::Deny && beneath(rule.path, path))
                inner.push_back(rule.path.substr(path.size() + 1));
        const std::string directory = fmt::format("/dev/shm/{}", i);
        list.mkdir(directory, inner.empty() ? 0 : 0711);
        for (const auto& place : inner)
            list.close(list.make_dirs_beneath({}, fmt::format("{}/{}", directory.substr(1), place), 0755));
        deny.tree = list.cover_tree("/dev/shm/file", path, sys::Leaf::File);
        deny.directory = list.cover_tree(directory, path, sys::Leaf::Directory);
        for (const auto tree : {deny.tree, deny.directory})
            list.mount_attr(tree, MOUNT_ATTR_RDONLY | kInert, {}, 0, sys::kMissing);
    }
    list.move_mount(before, "/dev/shm");
    list.close(before);
}

std::string link_at(const RuleSite& site, const std::string& path)
{
    return site.link && path.find('/', 1) == std::string::npos ? site.link(path) : std::string{};
}

/// A link cannot be covered: what holds is the access of the place it leads to, which must not be
/// more than the rule gives.
Status check_links(const RuleSite& site)
{
    if (site.files.decide("/") == Access::Deny) return {}; // there only what is allowed is linked to
    for (const auto& rule : site.files.rules) {
        const std::string to = link_at(site, rule.path);
        if (to.empty()) continue;
        const std::string place = to.front() == '/' ? to : "/" + to;
        if (site.files.decide(place) > rule.access)
            return fail(Code::Unsupported, "file rule {}: {} is a link to {} here; name that instead",
                        rule.source, rule.path, place);
    }
    return {};
}

/// Takes a clone of every place whose access differs from what is around it.
std::vector<Attachment> take_clones(sys::StepList& list, const RuleSite& site)
{
    const policy::BoundFiles& files = site.files;
    std::vector<Attachment> out;
    for (const auto& rule : files.rules) {
        if (rule.path.empty() || rule.path == "/" || around(files, rule) == rule.access) continue;
        if (rule.path == "/proc" || rule.path == "/dev") continue; // always there, and the sandbox's own
        if (!link_at(site, rule.path).empty()) {
            out.push_back({.rule = &rule, .tree = {}});
            continue;
        }
        list.say(fmt::format("applying the file rule {}", rule.source));
        out.push_back({.rule = &rule,
                       .tree = rule.access == Access::Deny
                                   ? sys::Slot{}
                                   : clone_of(list, rule.path, rule.access, sys::kMissing)});
    }
    std::vector<Attachment*> denied;
    for (auto& attachment : out)
        if (attachment.rule->access == Access::Deny && link_at(site, attachment.rule->path).empty())
            denied.push_back(&attachment);
    make_covers(list, files, denied);
    return out;
}

/// Everything read-only but what the sandbox's own machinery needs.
void make_root_read_only(sys::StepList& list)
{
    list.mount_attr("/", MOUNT_ATTR_RDONLY, 0, AT_RECURSIVE);
    for (const char* own : {"/proc", "/dev", "/dev/pts", "/dev/shm"})
        list.mount_attr(own, 0, MOUNT_ATTR_RDONLY, 0, EINVAL);
}

/// A root that holds nothing but what the rules allow, in the place of the present one.
void build_allowed_root(sys::StepList& list, const RuleSite& site, std::vector<Attachment>& attachments)
{
    const auto proc = list.open_tree("/proc", AT_RECURSIVE);
    const auto dev = list.open_tree("/dev", AT_RECURSIVE);
    const auto root = empty_tree(list, "0755");
    list.move_mount(root, "/"); // on top: paths still lead to the old root, the descriptor to the new
    for (const auto& [name, tree] : {std::pair("proc", proc), std::pair("dev", dev)}) {
        list.move_mount(tree, list.make_dirs_beneath(root, name, 0755));
        list.close(tree);
    }
    list.chdir(root);
    for (auto& attachment : attachments) {
        const std::string& path = attachment.rule->path;
        const auto above = [&](const Attachment& other) { return beneath(path, other.rule->path); };
        // What lies in another one's place is attached to that, in its turn.
        if (attachment.rule->access == Access::Deny || std::ranges::any_of(attachments, above)) continue;
        if (const std::string to = link_at(site, path); !to.empty()) {
            list.symlink(to, path.substr(1));
            continue;
        }
        const auto place = list.make_like_beneath(root, path.substr(1), attachment.tree, sys::kMissing);
        list.move_mount(attachment.tree, place, sys::kMissing);
        list.close(place, sys::kMissing);
        list.close(attachment.tree, sys::kMissing);
        attachment.tree = {};
    }
    list.pivot_root();
    list.mount_attr("/", MOUNT_ATTR_RDONLY, 0, 0);
}

const Shown* bind_of(const RuleSite& site, std::string_view path)
{
    const Shown* found = nullptr;
    for (const Shown& bind : site.shown)
        if ((path == bind.target || beneath(path, bind.target)) &&
            (found == nullptr || bind.target.size() > found->target.size()))
            found = &bind;
    return found;
}

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

/// Directories above a place that may not be changed, which themselves lie where may be written. Each is
/// mounted onto itself, for a mount point cannot be renamed: else the parent of a protected ".git", of a
/// denied or a read-only file could be moved away and another put in its place.
std::set<std::string> to_pin(const RuleSite& site, const std::vector<Attachment>& attachments)
{
    std::vector<std::string> kept = site.protected_paths;
    std::set<std::string> mounted{"/", "/proc", "/dev"};
    mounted.insert(site.protected_paths.begin(), site.protected_paths.end());
    for (const Shown& bind : site.shown) {
        mounted.insert(bind.target);
        kept.push_back(bind.target); // one may lie in another, and rules in it
    }
    for (const auto& attachment : attachments) {
        mounted.insert(attachment.rule->path);
        if (attachment.rule->access != Access::Write) kept.push_back(attachment.rule->path);
    }
    std::set<std::string> out;
    for (const auto& path : kept)
        for (std::string at = parent_of(path); at != "/"; at = parent_of(at)) {
            const std::string parent = parent_of(at);
            const Shown* bind = bind_of(site, parent);
            // In what is protected nothing can be renamed, or made.
            const auto around = [&](const std::string& held) {
                return parent == held || beneath(parent, held);
            };
            const bool fixed = std::ranges::any_of(site.protected_paths, around) ||
                               (bind == nullptr ? site.live : bind->mode == Mount::Mode::ReadOnly);
            if (!fixed && !mounted.contains(at) && site.files.decide(parent) == Access::Write) out.insert(at);
        }
    return out;
}

/// Whether files that the host makes there later are seen inside.
bool shared_with_host(const RuleSite& site, const std::string& path)
{
    if (const Shown* bind = bind_of(site, path)) return bind->mode != Mount::Mode::Copy;
    if (!site.live) return false;
    return std::ranges::none_of(site.hidden,
                                [&](const char* hidden) { return beneath(path, std::string("/") + hidden); });
}

bool is_missing(const RuleSite& site, const std::string& path)
{
    const Shown* bind = bind_of(site, path);
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = kNoLinks | (bind == nullptr ? 0 : RESOLVE_BENEATH);
    if (bind != nullptr && path == bind->target) return false;
    const std::string at = bind == nullptr ? path : path.substr(bind->target.size() + 1);
    const UniqueFd there(static_cast<int>(
        ::syscall(SYS_openat2, bind == nullptr ? AT_FDCWD : bind->source, at.c_str(), &how, sizeof how)));
    return !there && (errno == ENOENT || errno == ENOTDIR);
}

/// What is denied, or only to be read, must be there to be mounted over: what is made there later could not
/// be. In a shared directory the host makes files when it likes; everywhere else a place is made.
Status check_there(const RuleSite& site)
{
    for (const auto& rule : site.files.rules) {
        if (rule.path.empty() || rule.path == "/" || rule.access == Access::Write) continue;
        // Below a name that is held nothing can be made.
        const auto held = [&](const std::string& path) { return beneath(rule.path, path); };
        if (std::ranges::any_of(site.protected_paths, held)) continue;
        if (!shared_with_host(site, rule.path) || !is_missing(site, rule.path)) continue;
        const Shown* bind = bind_of(site, rule.path);
        const bool read_only = bind != nullptr && bind->mode == Mount::Mode::ReadOnly;
        if (rule.access == Access::Read && (read_only || around(site.files, rule) != Access::Write)) continue;
        if (rule.access == Access::Deny && around(site.files, rule) == Access::Deny) continue;
        return fail(Code::Unsupported,
                    "{} {}: it does not exist, and what is made there later could not be {}; make it first, "
                    "or mount the directory as :copy",
                    to_string(rule.access), rule.source,
                    rule.access == Access::Deny ? "covered" : "kept from being written");
    }
    return {};
}

/// In the sandbox's own root a rule about what is not there gets a place to hold at.
void make_places(sys::StepList& list, const RuleSite& site)
{
    for (const auto& rule : site.files.rules) {
        if (rule.path.empty() || rule.path == "/" || rule.access == Access::Write ||
            around(site.files, rule) != Access::Write || shared_with_host(site, rule.path) ||
            !link_at(site, rule.path).empty() || beneath(rule.path, "/proc") || beneath(rule.path, "/dev"))
            continue;
        list.say(fmt::format("making a place for the file rule {}", rule.source));
        if (site.root_id) list.fs_ids(*site.root_id, *site.root_id);
        list.close(list.make_dirs_beneath({}, rule.path.substr(1), 0755, ENOTDIR), sys::kMissing);
        if (site.root_id) list.fs_ids(0, 0);
        list.close(list.open_beneath({}, rule.path, O_PATH | O_CLOEXEC, kNoLinks));
    }
}

/// Something to be mounted. Clones were taken before the first of them; what lies in another's place comes
/// after it, and at one place a cover comes last.
struct Change {
    enum class Kind { Pin, Rule, Protect, Cover };
    std::string path;
    Kind kind;
    sys::Slot tree;
    const Attachment* attachment = nullptr;
    auto order() const { return std::pair(std::string_view(path), kind); }
};

} // namespace

void stage(sys::StepList& list, [[maybe_unused]] sys::Slot parent, std::string_view label)
{
    list.say(label);
    if (hooks::kill_at(label)) list.ask(list.borrow(hooks::executioner()));
}

Status add_file_rules(sys::StepList& list, const RuleSite& site, sys::Slot parent)
{
    const policy::BoundFiles& files = site.files;
    if (files.empty() || hooks::wall_off("file-mounts")) return {};
    for (const auto& rule : files.rules)
        if (!rule.pattern.empty())
            return fail(Code::Unsupported, "file rule {}: patterns cannot be held by mounts", rule.source);

    BERTH_CHECK(check_links(site));
    BERTH_CHECK(check_there(site));
    stage(list, parent, "applying the file rules");
    const Access top = files.decide("/");
    make_places(list, site);
    auto attachments = take_clones(list, site);
    std::vector<Change> changes;
    // Found a moment ago: one that is gone by now was moved, and would be writable at its new place.
    for (const auto& path : to_pin(site, attachments))
        changes.push_back({path, Change::Kind::Pin, clone_of(list, path, Access::Write, 0)});
    for (const auto& path : site.protected_paths) {
        list.say(fmt::format("protecting {}", path));
        changes.push_back({path, Change::Kind::Protect, clone_of(list, path, Access::Read, 0)});
    }
    if (top == Access::Deny)
        build_allowed_root(list, site, attachments);
    else if (top == Access::Read)
        make_root_read_only(list);
    // Nothing is writable again in a protected place; what is denied there is denied there too.
    const auto in_protected = [&](const Attachment& attachment) {
        return std::ranges::any_of(site.protected_paths, [&](const std::string& path) {
            return attachment.rule->path == path || beneath(attachment.rule->path, path);
        });
    };
    for (const auto& attachment : attachments) {
        if (!attachment.tree) continue;
        const bool deny = attachment.rule->access == Access::Deny;
        if (!deny && in_protected(attachment))
            list.close(attachment.tree, sys::kMissing);
        else
            changes.push_back({attachment.rule->path, deny ? Change::Kind::Cover : Change::Kind::Rule,
                               attachment.tree, &attachment});
    }
    std::ranges::sort(changes, {}, &Change::order);
    stage(list, parent, "protecting names");
    for (const auto& change : changes) {
        list.say(fmt::format("holding the rules at {}", change.path));
        if (change.kind == Change::Kind::Cover)
            cover(list, *change.attachment);
        else
            attach(list, change.path, change.tree, change.kind == Change::Kind::Rule ? sys::kMissing : 0);
    }
    return {};
}

} // namespace berth::keeping
