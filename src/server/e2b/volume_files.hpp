#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "sys/sandbox_files.hpp"

namespace berth::e2b {

/// One file of a volume.
struct VolumeEntry {
    std::string path; ///< from the volume's root: "/a/b"
    sys::FileKind kind = sys::FileKind::Other;
    std::uint64_t size = 0;
    unsigned mode = 0;              ///< permission bits, set-id and sticky included
    std::uint32_t uid = 0, gid = 0; ///< inside a sandbox
    WallTime accessed{}, modified{}, changed{};
    std::string target; ///< of a symlink
};

/// Whose it shall be, and how open. What is missing stays, or is the usual.
struct VolumeOwner {
    std::optional<std::uint32_t> uid, gid;
    std::optional<unsigned> mode;
};

/// The files of a volume, from outside, with the rights of root over all of them; sandboxes change them at
/// the same time. Paths begin at the volume's root and never lead out of it. Blocks.
class VolumeFiles {
public:
    [[nodiscard]] static Result<VolumeFiles> open(UniqueFd root);
    /// A new one's directory belongs to the user inside.
    [[nodiscard]] static Status adopt(int root);

    [[nodiscard]] Result<VolumeEntry> stat(const std::string& path) const;
    /// Pre-order, names sorted, `depth` directories deep; symlinks are not followed.
    [[nodiscard]] Result<std::vector<VolumeEntry>> list(const std::string& path, unsigned depth) const;
    [[nodiscard]] Result<VolumeEntry> change(const std::string& path, const VolumeOwner& owner) const;
    /// With `parents`, what is missing above it is made, and one that is there is success.
    [[nodiscard]] Result<VolumeEntry> make_dir(const std::string& path, const VolumeOwner& owner,
                                               bool parents) const;
    /// What `source` yields until its end. With `force`, what is missing above it is made, and a file that is
    /// there is overwritten; else Conflict where the name is taken.
    [[nodiscard]] Result<VolumeEntry> write(const std::string& path, int source, const VolumeOwner& owner,
                                            bool force) const;
    [[nodiscard]] Result<UniqueFd> open_file(const std::string& path) const { return files_.open_file(path); }
    /// And all below it.
    [[nodiscard]] Status remove(const std::string& path) const;

private:
    explicit VolumeFiles(sys::SandboxFiles files) : files_(std::move(files)) {}
    [[nodiscard]] Status give(const std::string& path, const VolumeOwner& owner) const;

    sys::SandboxFiles files_;
};

} // namespace berth::e2b
