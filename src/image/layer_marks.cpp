#include "image/layer_marks.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::image {

namespace {

constexpr std::string_view kMark = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::string_view kOtherMark = ".wh..wh."; // bookkeeping of the file system that invented them

std::string join(const std::string& directory, std::string_view name)
{
    return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

} // namespace

LayerMarks::LayerMarks(const Stack& below, TreeWriter& tree) : below_(below), tree_(tree)
{
    tree.imply([this](const std::string& path) { return as_below(path); });
}

Result<Attributes> LayerMarks::as_below(const std::string& path) const
{
    Attributes out;
    BERTH_TRY(const auto found, below_.find(path, Stack::LastLink::Keep));
    if (!found || !S_ISDIR(found->st.st_mode)) return out;
    out.mode = found->st.st_mode & 07777;
    out.uid = found->st.st_uid;
    out.gid = found->st.st_gid;
    out.mtime = found->st.st_mtim;
    return out;
}

Result<bool> LayerMarks::take_mark(const std::string& path)
{
    const std::string directory = parent_of(path);
    const std::string_view name = std::string_view(path).substr(directory.empty() ? 0 : directory.size() + 1);
    if (directory.starts_with(kMark) || directory.find("/.wh.") != std::string::npos)
        return fail(Code::Invalid, "'{}' lies below the mark of something removed", printable(path));
    if (!name.starts_with(kMark)) return false;
    if (name == kOpaque) {
        opaque_.insert(directory);
        return true;
    }
    if (name.starts_with(kOtherMark)) return true;
    const std::string_view hidden = name.substr(kMark.size());
    if (hidden.empty() || hidden == "." || hidden == "..")
        return fail(Code::Invalid, "'{}' removes nothing that has a name", printable(path));
    gone_.insert(join(directory, hidden));
    return true;
}

Result<std::string> LayerMarks::settle_directory(const std::string& directory)
{
    if (directory.empty() || tree_.has(directory)) return directory;
    if (directory == settled_from_) return settled_to_;
    std::string real;
    for (std::size_t begin = 0; begin < directory.size();) {
        const std::size_t end = std::min(directory.find('/', begin), directory.size());
        real = join(real, std::string_view(directory).substr(begin, end - begin));
        begin = end + 1;
        if (tree_.has(real)) continue;
        BERTH_TRY(const auto kept, below_.find(real, Stack::LastLink::Keep));
        if (!kept || !S_ISLNK(kept->st.st_mode)) continue;
        BERTH_TRY(const auto led, below_.find(real));
        if (led && S_ISDIR(led->st.st_mode)) real = led->path;
    }
    settled_from_ = directory;
    settled_to_ = real;
    return real;
}

Result<std::string> LayerMarks::settle(const std::string& path)
{
    const std::string directory = parent_of(path);
    BERTH_TRY(const std::string real, settle_directory(directory));
    if (real == directory) return path;
    return join(real, std::string_view(path).substr(directory.size() + 1));
}

Status LayerMarks::hide()
{
    for (const auto& directory : opaque_) {
        if (directory.empty()) continue; // no layer's root can be opaque: the layers below are left out
        BERTH_TRY(const auto real, settle_directory(directory));
        BERTH_CHECK(tree_.opaque(real));
    }
    for (const auto& path : gone_) {
        BERTH_TRY(const auto real, settle(path));
        // One over nothing would be seen in listings of directories that no other layer has.
        BERTH_TRY(const auto below, below_.find(real, Stack::LastLink::Keep));
        if (below) BERTH_CHECK(tree_.whiteout(real));
    }
    return {};
}

} // namespace berth::image
