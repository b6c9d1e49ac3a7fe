#pragma once

#include <sys/types.h>

#include <ctime>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// What a file is given besides its content.
struct Attributes {
    mode_t mode = 0755;
    uid_t uid = 0;
    gid_t gid = 0;
    std::optional<timespec> mtime{};
    std::vector<std::pair<std::string, std::string>> xattrs{};
};

/// Creates files below one directory by names that an enemy chose.
///
/// Names are relative and clean (clean_name). Every parent is opened beneath the root without
/// following any link, every object is made fresh: what has the name already is unlinked first, never
/// written to, and a directory that holds something is never replaced. Nobody else may be
/// writing to the tree. Directories stay 0700 until `finish`, so that a read-only one can be filled.
class TreeWriter {
public:
    /// Borrows the descriptor. With `Ids::Maker` owners are left alone and set-id bits are dropped.
    TreeWriter(int root, Ids ids) : root_(root), ids_(ids) {}

    [[nodiscard]] Status directory(const std::string& path, Attributes attributes);
    /// An empty file, to be filled and then given to `seal`.
    [[nodiscard]] Result<UniqueFd> file(const std::string& path);
    [[nodiscard]] Status seal(int file, const std::string& path, const Attributes& attributes);
    [[nodiscard]] Status symlink(const std::string& path, const std::string& target,
                                 const Attributes& attributes);
    /// A second name for a regular file that is in the tree already.
    [[nodiscard]] Status hardlink(const std::string& path, const std::string& target);
    [[nodiscard]] Status fifo(const std::string& path, const Attributes& attributes);
    /// Whether something has this name. A link is something, and nothing lies below one.
    [[nodiscard]] bool has(const std::string& path) const;
    /// Hides what the layers below have under this name. What is in the tree itself stays: a directory
    /// then shows nothing of them. To be called when everything else is there.
    [[nodiscard]] Status whiteout(const std::string& path);
    /// A directory, made if it is missing, that shows nothing of the layers below.
    [[nodiscard]] Status opaque(const std::string& path);
    /// Gives the directories their modes, owners and times, the deepest first.
    [[nodiscard]] Status finish();

    /// What a directory is given that is only implied by a name below it; without this 0755 and root's.
    using Implied = std::function<Result<Attributes>(const std::string& path)>;
    void imply(Implied attributes) { implied_attributes_ = std::move(attributes); }

    [[nodiscard]] std::uint64_t implied_directories() const noexcept { return implied_; }
    [[nodiscard]] std::uint64_t dropped_xattrs() const noexcept { return dropped_xattrs_; }

private:
    struct Place {
        int parent = -1;  ///< borrowed from parent_ or root_
        std::string name; ///< a single component
    };

    [[nodiscard]] Result<Place> place(const std::string& path);
    [[nodiscard]] Result<int> parent_of(const std::string& directory);
    [[nodiscard]] Result<UniqueFd> make_way(const std::string& directory);
    [[nodiscard]] Status vacate(const Place& place, const std::string& path);
    [[nodiscard]] Status apply(int fd, const std::string& path, const Attributes& attributes);
    [[nodiscard]] mode_t allowed(mode_t mode) const noexcept;

    int root_;
    Ids ids_;
    std::string parent_path_; ///< archives come directory by directory: the last one stays open
    UniqueFd parent_;
    std::map<std::string, Attributes> directories_; ///< sorted: a parent stands before its children
    std::set<std::string> opaque_;
    Implied implied_attributes_;
    std::uint64_t implied_ = 0;
    std::uint64_t dropped_xattrs_ = 0;
};

/// "/a/./b//c" becomes "a/b/c" and "./" the empty name. Refused: "..", a component over 255 bytes,
/// a whole over 4095 bytes or 256 components.
[[nodiscard]] Result<std::string> clean_name(std::string_view name);

} // namespace berth::image
