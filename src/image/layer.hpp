#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::image {

/// Writes into a layer that only we fill, by paths that we chose: nothing here is meant for names
/// from elsewhere (that is tree_writer.hpp). Modes are exact, whatever the umask.
class Layer {
public:
    /// Borrows the descriptor of the layer's root.
    explicit Layer(int dir) : dir_(dir) {}
    [[nodiscard]] int dir() const noexcept { return dir_; }

    [[nodiscard]] Status directory(const std::string& path, mode_t wanted) const;
    /// Replaces what has that name already.
    [[nodiscard]] Status file(const std::string& path, std::string_view text, mode_t wanted) const;
    [[nodiscard]] Status link(const std::string& path, const std::string& target) const;
    [[nodiscard]] Status mode(const std::string& path, mode_t wanted) const;
    [[nodiscard]] Status owner(const std::string& path, uid_t uid, gid_t gid) const;

private:
    int dir_;
};

} // namespace berth::image
