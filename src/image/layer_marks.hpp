#pragma once

#include <set>
#include <string>

#include "base/result.hpp"
#include "image/stack.hpp"
#include "image/tree_writer.hpp"

namespace berth::image {

/// What makes the tar of an image's layer more than a tar: it stands over other layers, and says by file
/// names what of them is gone (`.wh.NAME`, `.wh..wh..opq`).
class LayerMarks {
public:
    /// Borrows both. Directories of the tree that are only implied look as they do below.
    LayerMarks(const Stack& below, TreeWriter& tree);

    /// Keeps the name if it is a mark, whatever it names; false when it is an ordinary name. A mark holds for
    /// the layers below only, wherever in the archive it stands.
    [[nodiscard]] Result<bool> take_mark(const std::string& path);

    /// Where something of that name is to be put. A parent that the tree does not have and that is a link
    /// below leads where that link leads, as it did for the tool that made the layer.
    [[nodiscard]] Result<std::string> settle(const std::string& path);

    /// Puts whiteouts and opaque directories into the tree, when everything else is there.
    [[nodiscard]] Status hide();

    [[nodiscard]] bool opaque_root() const noexcept { return opaque_.contains(""); }

private:
    [[nodiscard]] Result<std::string> settle_directory(const std::string& directory);
    [[nodiscard]] Result<Attributes> as_below(const std::string& path) const;

    const Stack& below_;
    TreeWriter& tree_;
    std::set<std::string> gone_;
    std::set<std::string> opaque_;
    std::string settled_from_, settled_to_; ///< the last directory: archives come directory by directory
};

} // namespace berth::image
