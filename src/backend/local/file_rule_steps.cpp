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
#include <tuple>

#include "backend/local/plan.hpp"
#include "image/stack.hpp"

namespace berth::local {

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
    const std::string& path = deny.rule->path;
    const auto directory =
        list.open_beneath({}, path, O_PATH | O_DIRECTORY | O_CLOEXEC, kNoLinks, sys::kMissing);
    list.move_mount(deny.directory, directory, sys::kMissing);
    list.close(directory, sys::kMissing);
    list.close(deny.directory);
    const auto file = list.open_file_beneath({}, path, O_PATH | O_CLOEXEC, kNoLinks, sys::kMissing);
    list.move_mount(deny.tree, file, sys::kMissing);
    list.close(file, sys::kMissing);
    list.close(deny.tree);
}

/// A mode-000 file and a mode-000 directory for each that is denied, to lie over it. They are made in
/// one file system, which no name leads to afterwards.
void make_covers(sys::StepList& list, const policy::BoundFiles& files, std::span<Attachment* const> denied)
{
    if (denied.empty()) return;
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
        deny.tree = list.open_tree("/dev/shm/file");
        deny.directory = list.open_tree(directory);
        for (const auto tree : {deny.tree, deny.directory}) list.mount_attr(tree, MOUNT_ATTR_RDONLY | kInert);
    }
    list.unmount("/dev/shm");
}

/// Where a link of the template's own root leads ("bin" -> "usr/bin"); empty when it is none.
std::string link_in_template(const Plan& plan, const std::string& path)
{
    const bool live = plan.layers.kind == Template::Kind::Live; // its root is the host's own
    if ((plan.layers.root.empty() && !live) || path.find('/', 1) != std::string::npos) return {};
    char to[256];
    ssize_t n = 0;
    if (plan.layers.more_roots.empty()) {
        n = ::readlink((plan.layers.root + path).c_str(), &to[0], sizeof to);
    } else {
        const auto stack = image::Stack::open(plan.layers.stack());
        if (!stack) return {};
        const auto found = stack->find(path, image::Stack::LastLink::Keep);
        if (found && *found) n = ::readlinkat((*found)->object.get(), "", &to[0], sizeof to);
    }
    return n <= 0 || n == static_cast<ssize_t>(sizeof to) ? std::string{}
                                                          : std::string(&to[0], static_cast<std::size_t>(n));
}

/// A link cannot be covered: what holds is the access of the place it leads to, which must not be
/// more than the rule gives.
Status check_links(const Plan& plan)
{
    if (plan.files.decide("/") == Access::Deny) return {}; // there only what is allowed is linked to
    for (const auto& rule : plan.files.rules) {
        const std::string to = link_in_template(plan, rule.path);
        if (to.empty()) continue;
        const std::string place = to.front() == '/' ? to : "/" + to;
        if (plan.files.decide(place) > rule.access)
            return fail(Code::Unsupported, "file rule {}: {} is a link to {} here; name that instead",
                        rule.source, rule.path, place);
    }
    return {};
}

/// Takes a clone of every place whose access differs from what is around it.
std::vector<Attachment> take_clones(sys::StepList& list, const Plan& plan)
{
    const policy::BoundFiles& files = plan.files;
    std::vector<Attachment> out;
    for (const auto& rule : files.rules) {
        if (rule.path.empty() || rule.path == "/" || around(files, rule) == rule.access) continue;
        if (rule.path == "/proc" || rule.path == "/dev") continue; // always there, and the sandbox's own
        if (!link_in_template(plan, rule.path).empty()) {
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
        if (attachment.rule->access == Access::Deny && link_in_template(plan, attachment.rule->path).empty())
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
void build_allowed_root(sys::StepList& list, const Plan& plan, std::vector<Attachment>& attachments)
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
    // What lies in something that is attached here is attached later, on top.
    const auto nested = [&](const std::string& path) {
        return std::ranges::any_of(attachments, [&](const Attachment& other) {
            return other.rule->access != Access::Deny && beneath(path, other.rule->path);
        });
    };
    for (auto& attachment : attachments) {
        const std::string& path = attachment.rule->path;
        if (attachment.rule->access == Access::Deny || nested(path)) continue;
        if (const std::string to = link_in_template(plan, path); !to.empty()) {
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

/// The directories between a mounted host directory and a protected name in it. Each is mounted onto
/// itself, for a mount point cannot be renamed: else the parent of a nested ".git" could be moved
/// away and another put in its place.
std::set<std::string> ancestors_of_protected(const Plan& plan)
{
    std::set<std::string> out; // sorted, so that a parent comes before its children
    for (const auto& path : plan.protected_paths) {
        const Bind* deepest = nullptr; // one bind may lie in another
        for (const Bind& bind : plan.binds)
            if (beneath(path, bind.target) &&
                (deepest == nullptr || bind.target.size() > deepest->target.size()))
                deepest = &bind;
        if (deepest == nullptr) continue;
        const std::size_t top = deepest->target.size();
        for (auto slash = path.rfind('/'); slash > top; slash = path.rfind('/', slash - 1))
            out.insert(path.substr(0, slash));
    }
    return out;
}

/// What is denied in a shared host directory must be there to be covered: a file made later could
/// not be, and the host makes files when it likes.
Status check_denied_exist(const Plan& plan)
{
    for (const auto& rule : plan.files.rules) {
        if (rule.access != Access::Deny || rule.path.empty()) continue;
        // Below a name that is held nothing can be made.
        if (std::ranges::any_of(plan.protected_paths,
                                [&](const std::string& held) { return beneath(rule.path, held); }))
            continue;
        for (const Bind& bind : plan.binds) {
            if (bind.mode == Mount::Mode::Copy || !beneath(rule.path, bind.target)) continue;
            open_how how{};
            how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
            how.resolve = RESOLVE_BENEATH | kNoLinks;
            const std::string below = rule.path.substr(bind.target.size() + 1);
            const UniqueFd there(
                static_cast<int>(::syscall(SYS_openat2, bind.source.get(), below.c_str(), &how, sizeof how)));
            if (!there && errno == ENOENT)
                return fail(Code::Unsupported,
                            "deny {}: it does not exist, and a file made there later could not be covered; "
                            "make it first, or mount the directory as :copy",
                            rule.source);
        }
    }
    return {};
}

} // namespace

Status add_file_rules(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    const policy::BoundFiles& files = plan.files;
    if (files.empty()) return {};
    for (const auto& rule : files.rules)
        if (!rule.pattern.empty())
            return fail(Code::Unsupported, "file rule {}: patterns cannot be held by mounts", rule.source);

    BERTH_CHECK(check_links(plan));
    BERTH_CHECK(check_denied_exist(plan));
    stage(list, parent, "applying the file rules");
    const Access top = files.decide("/");
    auto attachments = take_clones(list, plan);
    // Found a moment ago: one that is gone by now was moved, and would be writable at its new place.
    std::vector<std::pair<std::string, sys::Slot>> protects;
    for (const auto& path : ancestors_of_protected(plan))
        protects.emplace_back(path, clone_of(list, path, Access::Write, 0));
    for (const auto& path : plan.protected_paths) {
        list.say(fmt::format("protecting {}", path));
        protects.emplace_back(path, clone_of(list, path, Access::Read, 0));
    }

    if (top == Access::Deny)
        build_allowed_root(list, plan, attachments);
    else if (top == Access::Read)
        make_root_read_only(list);
    // Every clone was taken before the first mount: one that is attached over a place hides what was attached
    // below it. So parents come first, whatever they are for, and what lies deeper lies on top.
    struct Layer {
        const std::string* path;
        sys::Slot tree;
        const Attachment* rule = nullptr; ///< null: an ancestor or a protected name
    };
    std::vector<Layer> layers;
    const auto in_protected = [&](const std::string& path) {
        return std::ranges::any_of(plan.protected_paths, [&](const std::string& held) {
            return path == held || beneath(path, held);
        });
    };
    for (const auto& attachment : attachments) {
        if (!attachment.tree) continue;
        // A protected name stays read-only also where a rule speaks of something in it.
        if (attachment.rule->access == Access::Write && in_protected(attachment.rule->path)) {
            list.close(attachment.tree, sys::kMissing);
            continue;
        }
        layers.push_back({.path = &attachment.rule->path, .tree = attachment.tree, .rule = &attachment});
    }
    for (const auto& [path, tree] : protects) layers.push_back({.path = &path, .tree = tree});
    // On one path a protection lies over what is granted, and what is denied over both.
    const auto rank = [](const Layer& layer) {
        if (layer.rule == nullptr) return 1;
        return layer.rule->rule->access == Access::Deny ? 2 : 0;
    };
    std::ranges::sort(layers, {}, [&](const Layer& layer) {
        return std::tuple(layer.path->size(), rank(layer), std::string_view(*layer.path));
    });
    stage(list, parent, "protecting names");
    for (const auto& layer : layers) {
        if (layer.rule != nullptr && layer.rule->rule->access == Access::Deny)
            cover(list, *layer.rule);
        else
            attach(list, *layer.path, layer.tree, layer.rule != nullptr ? sys::kMissing : 0);
    }
    return {};
}

} // namespace berth::local
