#include "image/oci_document.hpp"

#include <algorithm>
#include <array>

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "image/tree_writer.hpp"

namespace berth::image::oci {

namespace {

constexpr std::size_t kMostVariables = 1024;
constexpr std::size_t kLongestVariable = 128u << 10;
constexpr std::size_t kLongestText = 4096;
constexpr std::int64_t kLargestBlob = std::int64_t{1} << 50;

struct MediaType {
    std::string_view name;
    Descriptor::Kind kind;
};

constexpr std::array kMediaTypes = std::to_array<MediaType>({
    {"application/vnd.oci.image.index.v1+json", Descriptor::Kind::Index},
    {"application/vnd.docker.distribution.manifest.list.v2+json", Descriptor::Kind::Index},
    {"application/vnd.oci.image.manifest.v1+json", Descriptor::Kind::Manifest},
    {"application/vnd.docker.distribution.manifest.v2+json", Descriptor::Kind::Manifest},
    {"application/vnd.oci.image.config.v1+json", Descriptor::Kind::Config},
    {"application/vnd.docker.container.image.v1+json", Descriptor::Kind::Config},
    {"application/vnd.oci.image.layer.v1.tar", Descriptor::Kind::Layer},
    {"application/vnd.oci.image.layer.v1.tar+gzip", Descriptor::Kind::Layer},
    {"application/vnd.oci.image.layer.v1.tar+zstd", Descriptor::Kind::Layer},
    {"application/vnd.docker.image.rootfs.diff.tar", Descriptor::Kind::Layer},
    {"application/vnd.docker.image.rootfs.diff.tar.gzip", Descriptor::Kind::Layer},
});

Descriptor::Kind kind_of(std::string_view media_type)
{
    for (const auto& known : kMediaTypes)
        if (known.name == media_type) return known.kind;
    return Descriptor::Kind::Other;
}

Result<json::Value> parse(std::string_view text, std::string_view what)
{
    auto document = json::parse(text, {.bytes = kLargestDocument.count, .depth = 32});
    if (!document)
        return std::unexpected(std::move(document).error().while_doing(fmt::format("reading {}", what)));
    return document;
}

/// A string member, or the empty one where there is none.
Status read_text(const json::Reader& at, std::string_view name, std::string& out)
{
    BERTH_TRY(const auto found, at.find(name));
    if (!found) return {};
    BERTH_TRY(out, found->string());
    if (out.size() > kLongestText) return found->refuse("{} bytes; {} at most", out.size(), kLongestText);
    return {};
}

Result<std::vector<json::Reader>> list_of(const json::Reader& at, std::string_view name, std::size_t most)
{
    BERTH_TRY(const auto found, at.at(name));
    BERTH_TRY(auto all, found.array());
    if (all.size() > most) return found.refuse("{} entries; {} at most", all.size(), most);
    return all;
}

Result<std::string> read_digest(const json::Reader& at)
{
    BERTH_TRY(const auto text, at.string());
    auto digest = parse_digest(text);
    if (!digest) return at.refuse("{}", digest.error().message);
    return digest;
}

Status read_annotations(const json::Reader& at, Descriptor& out)
{
    BERTH_TRY(const auto found, at.find("annotations"));
    if (!found) return {};
    for (const char* name : {"org.opencontainers.image.ref.name", "io.containerd.image.name"}) {
        std::string text;
        BERTH_CHECK(read_text(*found, name, text));
        if (!text.empty()) out.names.push_back(std::move(text));
    }
    std::string type;
    BERTH_CHECK(read_text(*found, "vnd.docker.reference.type", type));
    out.attestation = !type.empty();
    return {};
}

Result<Descriptor> read_descriptor(const json::Reader& at)
{
    Descriptor out;
    BERTH_CHECK(read_text(at, "mediaType", out.media_type));
    out.kind = kind_of(out.media_type);
    BERTH_TRY(const auto digest, at.at("digest"));
    BERTH_TRY(out.sha256, read_digest(digest));
    BERTH_TRY(const auto size, at.at("size"));
    BERTH_TRY(const auto bytes, size.integer(0, kLargestBlob));
    out.size = static_cast<std::uint64_t>(bytes);
    BERTH_TRY(const auto platform, at.find("platform"));
    if (platform) {
        BERTH_CHECK(read_text(*platform, "os", out.os));
        BERTH_CHECK(read_text(*platform, "architecture", out.architecture));
        BERTH_CHECK(read_text(*platform, "variant", out.variant));
    }
    BERTH_CHECK(read_annotations(at, out));
    return out;
}

/// An image without a schema version is of the first one, whose layers are named in another way.
Status check_schema(const json::Reader& at)
{
    BERTH_TRY(const auto version, at.find("schemaVersion"));
    if (!version) return at.refuse("no schemaVersion");
    const auto number = version->integer(0, 1000);
    if (!number || *number != 2) return version->refuse("only schema version 2 can be read");
    return {};
}

Status read_env(const json::Reader& at, std::map<std::string, std::string>& out)
{
    BERTH_TRY(const auto found, at.find("Env"));
    if (!found) return {};
    BERTH_TRY(const auto all, found->strings());
    if (all.size() > kMostVariables)
        return found->refuse("{} variables; {} at most", all.size(), kMostVariables);
    for (const auto& pair : all) {
        const auto equals = pair.find('=');
        if (equals == std::string::npos) continue; // a variable of the host's, which is nobody's business
        if (equals == 0 || pair.find('\0') != std::string::npos || pair.size() > kLongestVariable)
            return found->refuse("bad variable '{}'", printable(pair, 60));
        out[pair.substr(0, equals)] = pair.substr(equals + 1);
    }
    return {};
}

Status read_defaults(const json::Reader& at, Defaults& out)
{
    BERTH_CHECK(read_env(at, out.env));
    BERTH_CHECK(read_text(at, "User", out.user));
    std::string workdir;
    BERTH_CHECK(read_text(at, "WorkingDir", workdir));
    if (workdir.find('\0') != std::string::npos || out.user.find('\0') != std::string::npos)
        return at.refuse("a NUL byte in WorkingDir or User");
    if (workdir.empty()) return {};
    const auto clean = clean_name(workdir);
    if (!clean) return at.refuse("bad WorkingDir '{}'", printable(workdir, 100));
    out.workdir = "/" + *clean;
    return {};
}

} // namespace

std::string Descriptor::platform() const
{
    const std::string base =
        fmt::format("{}/{}", os.empty() ? "?" : os, architecture.empty() ? "?" : architecture);
    return variant.empty() ? base : fmt::format("{}/{}", base, variant);
}

Result<std::string> parse_digest(std::string_view text)
{
    constexpr std::string_view kPrefix = "sha256:";
    constexpr std::size_t kDigits = 64;
    if (!text.starts_with(kPrefix))
        return fail(Code::Invalid, "digest '{}' is not one of sha256", printable(text, 80));
    const std::string_view digits = text.substr(kPrefix.size());
    if (digits.size() != kDigits || digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
        return fail(Code::Invalid, "digest '{}' is not 64 hexadecimal digits", printable(text, 80));
    return std::string(digits);
}

Status check_layout(std::string_view text)
{
    BERTH_TRY(const auto document, parse(text, "oci-layout"));
    BERTH_TRY(const auto at, json::Reader(document).at("imageLayoutVersion"));
    BERTH_TRY(const auto version, at.string());
    if (!version.starts_with("1.")) return at.refuse("version '{}' cannot be read", printable(version, 20));
    return {};
}

Result<std::vector<Descriptor>> parse_index(std::string_view text)
{
    BERTH_TRY(const auto document, parse(text, "an image index"));
    const json::Reader at(document);
    BERTH_CHECK(check_schema(at));
    BERTH_TRY(const auto all, list_of(at, "manifests", kMostManifests));
    std::vector<Descriptor> out;
    for (const auto& one : all) {
        BERTH_TRY(auto descriptor, read_descriptor(one));
        out.push_back(std::move(descriptor));
    }
    return out;
}

Result<Manifest> parse_manifest(std::string_view text)
{
    BERTH_TRY(const auto document, parse(text, "an image manifest"));
    const json::Reader at(document);
    BERTH_CHECK(check_schema(at));
    Manifest out;
    BERTH_TRY(const auto config, at.at("config"));
    BERTH_TRY(out.config, read_descriptor(config));
    if (out.config.kind != Descriptor::Kind::Config)
        return config.refuse("'{}' is not the configuration of an image",
                             printable(out.config.media_type, 120));
    BERTH_TRY(const auto layers, list_of(at, "layers", kMostLayers));
    for (const auto& one : layers) {
        BERTH_TRY(auto layer, read_descriptor(one));
        if (layer.kind != Descriptor::Kind::Layer)
            return one.refuse("layers of type '{}' cannot be read", printable(layer.media_type, 120));
        out.layers.push_back(std::move(layer));
    }
    return out;
}

Result<Config> parse_config(std::string_view text)
{
    BERTH_TRY(const auto document, parse(text, "the configuration of an image"));
    const json::Reader at(document);
    Config out;
    BERTH_CHECK(read_text(at, "os", out.os));
    BERTH_CHECK(read_text(at, "architecture", out.architecture));
    BERTH_TRY(const auto rootfs, at.at("rootfs"));
    BERTH_TRY(const auto diff_ids, list_of(rootfs, "diff_ids", kMostLayers));
    for (const auto& one : diff_ids) {
        BERTH_TRY(auto digest, read_digest(one));
        out.diff_ids.push_back(std::move(digest));
    }
    BERTH_TRY(const auto config, at.find("config"));
    if (config) BERTH_CHECK(read_defaults(*config, out.defaults));
    return out;
}

Result<std::vector<ArchivedImage>> parse_archive_manifest(std::string_view text)
{
    BERTH_TRY(const auto document, parse(text, "manifest.json"));
    const json::Reader at(document);
    BERTH_TRY(const auto all, at.array());
    if (all.size() > kMostManifests) return at.refuse("{} images; {} at most", all.size(), kMostManifests);
    std::vector<ArchivedImage> out;
    for (const auto& one : all) {
        ArchivedImage image;
        BERTH_CHECK(read_text(one, "Config", image.config));
        if (image.config.empty()) return one.refuse("no Config");
        BERTH_TRY(const auto tags, one.find("RepoTags"));
        if (tags) {
            BERTH_TRY(image.names, tags->strings());
        }
        BERTH_TRY(const auto layers, list_of(one, "Layers", kMostLayers));
        for (const auto& layer : layers) {
            BERTH_TRY(auto path, layer.string());
            image.layers.push_back(std::move(path));
        }
        out.push_back(std::move(image));
    }
    return out;
}

} // namespace berth::image::oci
