#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::image {

/// Looks things up in layers as an overlay of them would show it, without mounting one: whiteouts hide,
/// opaque directories end what shines through, links lead where they lead inside and never out.
class Stack {
public:
    /// The topmost first. Descriptors are held as long as the stack lives.
    [[nodiscard]] static Result<Stack> open(const std::vector<std::string>& roots);

    struct Found {
        std::string path; ///< from the root, without links and without a leading slash; "" is the root
        struct stat st{};
        UniqueFd object; ///< O_PATH
    };
    enum class LastLink { Follow, Keep };

    /// What has this name, or nothing. A component that is no directory is nothing, too.
    [[nodiscard]] Result<std::optional<Found>> find(const std::string& path,
                                                    LastLink last = LastLink::Follow) const;

    /// The text of a regular file; empty where there is none.
    [[nodiscard]] Result<std::string> read(const std::string& path, Bytes limit) const;

private:
    explicit Stack(std::vector<UniqueFd> roots) : roots_(std::move(roots)) {}
    std::vector<UniqueFd> roots_;
};

/// The attribute that makes a directory of a layer opaque, in the overlays this process mounts.
[[nodiscard]] const char* opaque_attribute() noexcept;

} // namespace berth::image
