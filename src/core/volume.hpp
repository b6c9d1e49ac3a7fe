#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth {

/// A directory of the sandbox's key that outlives the sandbox and belongs to no layer or snapshot of it.
struct Volume {
    std::string name;
    std::string target; ///< absolute inside
    bool writable = true;
    /// The host's directory, filled in before a backend sees the spec. Where the host keeps a volume is
    /// nothing anybody asked for: neither equality nor a hash sees it.
    std::string source;

    bool operator==(const Volume& other) const
    {
        return name == other.name && target == other.target && writable == other.writable;
    }
};

/// "NAME:TARGET[:ro|:rw]" of --volume; default rw.
[[nodiscard]] Result<Volume> parse_volume(std::string_view text);

/// Names that are not blank, hold neither '/' nor NUL and are used once.
[[nodiscard]] Status validate_volume_names(const std::vector<Volume>& volumes);

/// The name of the host's directory for a volume of a key: 64-bit FNV-1a of `<key>\n<name>` as 16
/// hexadecimal digits, by which exo finds the same directory.
[[nodiscard]] std::string volume_directory_name(const std::string& key, const std::string& name);

} // namespace berth
