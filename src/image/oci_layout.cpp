#include "image/oci_layout.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/oci_choose.hpp"
#include "image/tree_writer.hpp"

namespace berth::image::oci {

namespace {

constexpr int kDeepestIndex = 4;
constexpr std::string_view kBlobs = "blobs/sha256/";

std::string blob_path(const std::string& sha256) { return fmt::format("{}{}", kBlobs, sha256); }

bool is_digest(std::string_view text)
{
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The digest that a path of docker's tells by its name, if it does.
std::string digest_in_name(std::string_view path)
{
    if (path.starts_with(kBlobs)) path.remove_prefix(kBlobs.size());
    if (path.ends_with(".json")) path.remove_suffix(5);
    return is_digest(path) ? std::string(path) : std::string();
}

Result<Image> assemble(const Config& config, std::vector<LayerFile> layers)
{
    BERTH_CHECK(check_platform(config.os, config.architecture));
    if (layers.size() != config.diff_ids.size())
        return fail(Code::Invalid, "{} layers, and {} in the configuration", layers.size(),
                    config.diff_ids.size());
    if (layers.empty()) return fail(Code::Invalid, "the image has no layers");
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].diff_id = config.diff_ids[i];
    return Image{.defaults = config.defaults, .layers = std::move(layers)};
}

Result<Image> from_index(const Layout& layout, const std::string& tag)
{
    BERTH_TRY(const auto version, layout.read("oci-layout"));
    BERTH_CHECK(check_layout(version));
    BERTH_TRY(const auto top, layout.read("index.json"));
    BERTH_TRY(const auto index, parse_index(top));
    BERTH_TRY(auto chosen, choose(index, tag));
    for (int depth = 0; chosen.kind == Descriptor::Kind::Index; ++depth) {
        if (depth == kDeepestIndex) return fail(Code::Invalid, "an index in an index in an index");
        BERTH_TRY(const auto text, layout.read(chosen));
        BERTH_TRY(const auto below, parse_index(text));
        BERTH_TRY(chosen, choose(below, ""));
    }
    BERTH_TRY(const auto text, layout.read(chosen));
    BERTH_TRY(const auto manifest, parse_manifest(text));
    BERTH_TRY(const auto config_text, layout.read(manifest.config));
    BERTH_TRY(const auto config, parse_config(config_text));
    std::vector<LayerFile> layers;
    for (const auto& layer : manifest.layers)
        layers.push_back(
            {.path = blob_path(layer.sha256), .diff_id = {}, .sha256 = layer.sha256, .size = layer.size});
    return assemble(config, std::move(layers));
}

Result<Image> from_archive_manifest(const Layout& layout, const std::string& tag)
{
    BERTH_TRY(const auto text, layout.read("manifest.json"));
    BERTH_TRY(const auto images, parse_archive_manifest(text));
    BERTH_TRY(const auto chosen, choose(images, tag));
    BERTH_TRY(const auto config_text, layout.read(chosen.config));
    const std::string promised = digest_in_name(chosen.config);
    if (!promised.empty() && sha256_hex(config_text) != promised)
        return fail(Code::Invalid, "{} does not have the digest in its name", printable(chosen.config));
    BERTH_TRY(const auto config, parse_config(config_text));
    std::vector<LayerFile> layers;
    for (const auto& path : chosen.layers)
        layers.push_back({.path = path, .diff_id = {}, .sha256 = digest_in_name(path), .size = {}});
    return assemble(config, std::move(layers));
}

} // namespace

Result<UniqueFd> Layout::open(const std::string& path) const
{
    BERTH_TRY(const auto clean, clean_name(path));
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    UniqueFd file(static_cast<int>(::syscall(SYS_openat2, dir_.get(), clean.c_str(), &how, sizeof how)));
    if (!file && (errno == EXDEV || errno == ELOOP))
        return fail(Code::Invalid, "{} of {} leads out of it", printable(clean), what_);
    if (!file) return fail_errno("opening {} of {}", printable(clean), what_);
    struct stat st{};
    if (::fstat(file.get(), &st) != 0) return fail_errno("looking at {} of {}", printable(clean), what_);
    if (!S_ISREG(st.st_mode)) return fail(Code::Invalid, "{} of {} is not a file", printable(clean), what_);
    return file;
}

Result<std::string> Layout::read(const std::string& path) const
{
    BERTH_TRY(const auto file, open(path));
    return read_to_end(file.get(), kLargestDocument, fmt::format("{} of {}", printable(path), what_));
}

bool Layout::has(const std::string& path) const { return static_cast<bool>(open(path)); }

Result<std::string> Layout::read(const Descriptor& descriptor) const
{
    const std::string path = blob_path(descriptor.sha256);
    BERTH_TRY(auto text, read(path));
    if (text.size() != descriptor.size)
        return fail(Code::Invalid, "{} has {} bytes, not the {} that it should", path, text.size(),
                    descriptor.size);
    if (sha256_hex(text) != descriptor.sha256)
        return fail(Code::Invalid, "{} does not have the digest in its name", path);
    return text;
}

Result<Image> find_image(const Layout& layout, const std::string& tag)
{
    const bool index = layout.has("oci-layout");
    if (!index && !layout.has("manifest.json"))
        return fail(Code::Invalid, "{} is no image: it has neither oci-layout nor manifest.json",
                    layout.what());
    auto image = index ? from_index(layout, tag) : from_archive_manifest(layout, tag);
    if (!image)
        return std::unexpected(
            std::move(image).error().while_doing(fmt::format("reading image {}", layout.what())));
    return image;
}

} // namespace berth::image::oci
