#include "server/codex/sandbox_walk.hpp"

#include <deque>
#include <map>
#include <set>
#include <vector>

namespace berth::codex {

namespace {

constexpr std::size_t kCut = std::size_t{32} << 20; ///< as the script has it

struct Child {
    bool directory = false;
    bool regular = false;
    std::string identity; ///< empty: not told
};
/// Of each directory, by its path below the root of the walk.
using Tree = std::map<std::string, std::map<std::string, Child>, std::less<>>;

Tree read_tree(std::string_view text)
{
    Tree out;
    for (std::size_t at = 0; at < text.size();) {
        const auto kind_end = text.find('\0', at);
        const auto path_end = kind_end == text.npos ? text.npos : text.find('\0', kind_end + 1);
        if (path_end == text.npos) break; // the last one, cut off
        const auto kind = text.substr(at, kind_end - at);
        const auto path = text.substr(kind_end + 1, path_end - kind_end - 1);
        at = path_end + 1;
        if (kind.size() < 2 || path.empty()) continue;
        const auto slash = path.rfind('/');
        const auto parent = slash == path.npos ? std::string_view{} : path.substr(0, slash);
        const auto name = slash == path.npos ? path : path.substr(slash + 1);
        // Links to files are never told; those to directories look like one only where they are followed.
        const bool link = kind[0] == 'L';
        out[std::string(parent)].emplace(name, Child{.directory = kind[1] == 'd',
                                                     .regular = kind[1] == 'f' && !link,
                                                     .identity = std::string(kind.substr(2))});
    }
    return out;
}

} // namespace

files::WalkResult walk_found(const WalkParams& params, std::string_view found,
                             const std::function<bool(const std::string&)>& hidden)
{
    const Tree tree = read_tree(found);
    files::WalkResult out;
    out.truncated = found.size() >= kCut;
    const std::string top = params.path == "/" ? "" : params.path;
    std::deque<std::pair<std::string, std::int64_t>> queue{{std::string{}, 0}};
    std::set<std::string, std::less<>> entered;
    std::int64_t directories = 0;
    std::size_t bytes = 0;
    while (!queue.empty()) {
        const auto [directory, depth] = queue.front();
        queue.pop_front();
        if (++directories > params.max_directories) {
            out.truncated = true;
            return out;
        }
        const auto children = tree.find(directory);
        if (children == tree.end()) continue;
        for (const auto& [name, child] : children->second) {
            if (!child.directory && !child.regular) continue;
            const std::string below = directory.empty() ? name : directory + "/" + name;
            const std::string path = top + "/" + below;
            if (hidden(path)) continue;
            bytes += path.size() + files::kWalkItem;
            if (static_cast<std::int64_t>(out.items.size()) >= params.max_entries ||
                bytes > files::kWalkBytes) {
                out.truncated = true;
                return out;
            }
            out.items.push_back({.path = path, .directory = child.directory});
            const bool pruned = params.prune_hidden && name.starts_with('.');
            if (!child.directory || pruned || depth + 1 > params.max_depth) continue;
            // By whatever names a directory is reached, it is entered once.
            if (child.identity.empty() || entered.insert(child.identity).second)
                queue.emplace_back(below, depth + 1);
        }
    }
    return out;
}

} // namespace berth::codex
