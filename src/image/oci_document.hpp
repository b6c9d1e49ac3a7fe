#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

/// The documents of an OCI image, and of the archives that docker writes: text to structs, no input or
/// output. Every field is hostile. What we do not know is passed over, as the format asks.
namespace berth::image::oci {

inline constexpr Bytes kLargestDocument = 4_MiB;
inline constexpr std::size_t kMostLayers = 128;
inline constexpr std::size_t kMostManifests = 1024;

/// Names a blob by what it holds.
struct Descriptor {
    enum class Kind { Index, Manifest, Config, Layer, Other };
    Kind kind = Kind::Other;
    std::string media_type;
    std::string sha256; ///< 64 hexadecimal digits: nothing else can become a file name
    std::uint64_t size = 0;
    std::string os;           ///< empty: not said
    std::string architecture; ///< empty: not said
    std::string variant;
    std::vector<std::string> names; ///< by which somebody may ask for it: a tag, a full name
    bool attestation = false;       ///< tells about another manifest and is no image

    [[nodiscard]] std::string platform() const;
};

struct Manifest {
    Descriptor config;
    std::vector<Descriptor> layers; ///< the lowest first
};

/// What an image asks for the processes in it. Its command is not ours to run.
struct Defaults {
    std::map<std::string, std::string> env;
    std::string workdir; ///< absolute, or empty
    std::string user;    ///< "name", "uid", "name:group" or the like; may be empty
    bool operator==(const Defaults&) const = default;
};

struct Config {
    std::string os;
    std::string architecture;
    std::vector<std::string> diff_ids; ///< SHA-256 of each layer's tar, uncompressed, the lowest first
    Defaults defaults;
};

/// One image of `manifest.json`, as `docker save` writes it. Paths are as the archive has them.
struct ArchivedImage {
    std::string config;
    std::vector<std::string> names;
    std::vector<std::string> layers;
};

/// "sha256:" and 64 digits; answers with the digits.
[[nodiscard]] Result<std::string> parse_digest(std::string_view text);

/// `oci-layout`: a version we know.
[[nodiscard]] Status check_layout(std::string_view text);
[[nodiscard]] Result<std::vector<Descriptor>> parse_index(std::string_view text);
[[nodiscard]] Result<Manifest> parse_manifest(std::string_view text);
[[nodiscard]] Result<Config> parse_config(std::string_view text);
[[nodiscard]] Result<std::vector<ArchivedImage>> parse_archive_manifest(std::string_view text);

} // namespace berth::image::oci
