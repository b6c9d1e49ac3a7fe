#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/json_reader.hpp"
#include "base/result.hpp"

namespace berth {

/// What an image asks for the processes in it. It is not in its files: it goes beside them wherever they go.
struct ImageDefaults {
    std::map<std::string, std::string> env;
    std::string workdir;
    std::string user; ///< empty: root
    bool operator==(const ImageDefaults&) const = default;
};

/// "ENV FOO, PATH; WORKDIR /srv/w; USER nobody", without values; empty: it asks for nothing.
[[nodiscard]] std::string to_string(const ImageDefaults& asked);

[[nodiscard]] json::Object to_json(const ImageDefaults& asked);
/// An image may say anything: what no process can be given is refused.
[[nodiscard]] Result<ImageDefaults> read_image_defaults(const json::Reader& at);

/// In the directory of a snapshot, beside its files.
[[nodiscard]] Status keep_image_defaults(const std::string& directory, const ImageDefaults& asked);
/// Nothing: the snapshot was made before they were kept. What is damaged is Invalid.
[[nodiscard]] Result<std::optional<ImageDefaults>> kept_image_defaults(const std::string& directory);

} // namespace berth
