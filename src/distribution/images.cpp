#include "distribution/images.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/digest.hpp"
#include "image/oci_choose.hpp"
#include "image/oci_layout.hpp"
#include "image/oci_template.hpp"
#include "sys/copy_tree.hpp"
#include "sys/remove_tree.hpp"

namespace berth::distribution {

namespace {

using image::oci::Descriptor;

constexpr Bytes kLargestImage = 16_GiB; // of what is sent
constexpr std::string_view kImage = "image-";
constexpr std::string_view kName = "name-";
constexpr std::string_view kCard = ".json";
constexpr std::string_view kFetch = "fetch-"; // while it comes

bool is_index(const Registry::Document& document)
{
    for (const std::string_view word : {"image.index", "manifest.list"})
        if (document.media_type.find(word) != std::string::npos) return true;
    const auto parsed = json::parse(document.text, {.bytes = image::oci::kLargestDocument.count});
    return parsed && parsed->is_object() && parsed->get_object().contains("manifests");
}

/// What a name means: a manifest for this machine.
struct Resolved {
    std::string digest;
    std::string text;
    image::oci::Manifest manifest;
};

Result<Resolved> resolve(Registry& registry, const Reference& reference)
{
    BERTH_TRY(auto document, registry.manifest(reference.wanted()));
    for (int depth = 0; is_index(document); ++depth) {
        if (depth == 3) return fail(Code::Invalid, "an index in an index in an index");
        BERTH_TRY(const auto index, image::oci::parse_index(document.text));
        BERTH_TRY(const auto chosen, image::oci::choose(index, ""));
        BERTH_TRY(document, registry.manifest("sha256:" + chosen.sha256));
    }
    BERTH_TRY(auto manifest, image::oci::parse_manifest(document.text));
    std::uint64_t sum = manifest.config.size;
    for (const auto& layer : manifest.layers) sum += layer.size;
    if (sum > kLargestImage.count)
        return fail(Code::Exhausted, "it is {} large; {} at most", show(Bytes{sum}), show(kLargestImage));
    if (manifest.config.size > image::oci::kLargestDocument.count)
        return fail(Code::Invalid, "its configuration is larger than any");
    return Resolved{.digest = sha256_hex(document.text),
                    .text = std::move(document.text),
                    .manifest = std::move(manifest)};
}

Status fetch_blob(int blobs, Registry& registry, const Descriptor& what, const FetchProgress& progress,
                  const std::string& label)
{
    UniqueFd file(::openat(blobs, what.sha256.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("making a file for sha256:{}", what.sha256);
    std::uint64_t have = 0;
    const auto restart = [&]() -> Status {
        have = 0;
        if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0)
            return fail_errno("beginning sha256:{}", what.sha256);
        return {};
    };
    return registry.blob(what, restart, [&](std::string_view bytes) -> Status {
        have += bytes.size();
        if (progress) progress(label, have, what.size);
        return write_all(file.get(), bytes);
    });
}

/// An OCI layout with this one image.
Status fill(int dir, Registry& registry, const Resolved& what, const FetchWish& wish)
{
    for (const char* name : {"blobs", "blobs/sha256"})
        if (::mkdirat(dir, name, 0700) != 0) return fail_errno("creating {}", name);
    const UniqueFd blobs(::openat(dir, "blobs/sha256", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!blobs) return fail_errno("opening blobs");
    BERTH_CHECK(fetch_blob(blobs.get(), registry, what.manifest.config, {}, "configuration"));
    // Another machine's image is refused before its layers are fetched.
    BERTH_TRY(const auto config_text,
              read_file_at(blobs.get(), what.manifest.config.sha256, image::oci::kLargestDocument));
    BERTH_TRY(const auto config, image::oci::parse_config(config_text));
    BERTH_CHECK(image::oci::check_platform(config.os, config.architecture));
    std::size_t number = 0;
    for (const auto& layer : what.manifest.layers) {
        const auto label = fmt::format("layer {}/{}", ++number, what.manifest.layers.size());
        BERTH_CHECK(fetch_blob(blobs.get(), registry, layer, wish.progress, label));
    }
    BERTH_CHECK(replace_file_at(blobs.get(), what.digest, what.text));
    json::Object manifest;
    manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json";
    manifest["digest"] = "sha256:" + what.digest;
    manifest["size"] = what.text.size();
    manifest["annotations"] = json::Object{{"org.opencontainers.image.ref.name", wish.reference.text()}};
    json::Object index;
    index["schemaVersion"] = 2;
    index["manifests"] = json::Array{std::move(manifest)};
    BERTH_CHECK(replace_file_at(dir, "index.json", json::dump(index)));
    return replace_file_at(dir, "oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
}

/// A layout's tree or an archive's file below `dir`; how many bytes.
Result<std::uint64_t> copy_in(int source, bool directory, int dir, const std::string& name)
{
    if (directory) {
        BERTH_TRY(const auto copied, sys::copy_tree(source, dir, name));
        return copied.bytes;
    }
    if (::lseek(source, 0, SEEK_SET) != 0) return fail_errno("rewinding an archive");
    const UniqueFd file(::openat(dir, name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
    if (!file) return fail_errno("making {}", name);
    std::string piece(std::size_t{1} << 20, '\0');
    for (std::uint64_t bytes = 0;;) {
        const auto n = ::read(source, piece.data(), piece.size());
        if (n < 0) return fail_errno("reading an archive");
        if (n == 0) return bytes;
        bytes += static_cast<std::uint64_t>(n);
        BERTH_CHECK(write_all(file.get(), std::string_view(piece.data(), static_cast<std::size_t>(n))));
    }
}

std::string name_file(const Reference& reference)
{
    return fmt::format("{}{}{}", kName, sha256_hex(reference.text()), kCard);
}

} // namespace

Result<Images> Images::open(const std::string& data)
{
    BERTH_TRY(auto cache, image::Cache::open(data + "/images"));
    return Images(std::move(cache));
}

Result<std::optional<KeptImage>> Images::at(const std::string& digest) const
{
    const std::string name = std::string(kImage) + digest;
    BERTH_TRY(const auto ready, cache_.find(name));
    if (!ready) return std::nullopt;
    BERTH_TRY(const auto document, json::parse(*ready));
    const json::Reader reader(document);
    KeptImage out{.digest = digest, .path = fmt::format("{}/{}", cache_.path(), name)};
    BERTH_TRY(const auto inner, reader.find("inner"));
    if (inner) {
        BERTH_TRY(const auto below, inner->string());
        out.path += "/" + below;
    }
    BERTH_TRY(const auto bytes, reader.at("bytes"));
    BERTH_TRY(const auto count, bytes.integer(0, INT64_MAX));
    out.bytes = static_cast<std::uint64_t>(count);
    BERTH_TRY(const auto created, reader.at("created"));
    BERTH_TRY(const auto time, created.integer(0, INT64_MAX));
    out.created = WallTime(std::chrono::nanoseconds(time));
    return out;
}

Result<KeptImage> Images::fetch(const FetchWish& wish) const
{
    Registry registry(wish.reference, wish.login,
                      {.until = system_clock().steady() + wish.patience, .stop = wish.stop});
    const auto work = [&]() -> Result<KeptImage> {
        BERTH_TRY(const auto what, resolve(registry, wish.reference));
        BERTH_TRY(auto known, at(what.digest));
        if (known) return *std::move(known);
        BERTH_TRY(const auto lock, cache_.lock(fmt::format("{}{}", kFetch, what.digest.substr(0, 32)), {}));
        BERTH_TRY(known, at(what.digest));
        if (known) return *std::move(known);
        BERTH_CHECK(cache_.make(lock, std::string(kImage) + what.digest, [&](int dir) -> Result<std::string> {
            BERTH_CHECK(fill(dir, registry, what, wish));
            std::uint64_t bytes = what.text.size() + what.manifest.config.size;
            for (const auto& layer : what.manifest.layers) bytes += layer.size;
            json::Object ready;
            ready["bytes"] = bytes;
            ready["created"] = system_clock().now().time_since_epoch().count();
            return json::dump(ready);
        }));
        BERTH_TRY(known, at(what.digest));
        if (!known) return fail(Code::Internal, "image {} is gone again", what.digest);
        return *std::move(known);
    };
    auto got = work();
    if (!got) return std::unexpected(std::move(got).error().while_doing("fetching " + wish.reference.text()));
    return got;
}

Result<KeptImage> Images::pull(const FetchWish& wish) const
{
    BERTH_TRY(auto image, fetch(wish));
    return give_name(std::move(image), wish.reference);
}

Result<KeptImage> Images::give_name(KeptImage image, const Reference& reference) const
{
    image.name = reference.text();
    json::Object out;
    out["name"] = image.name;
    out["digest"] = image.digest;
    out["tag"] = image.tag;
    BERTH_CHECK(replace_file_at(cache_.dir(), name_file(reference), json::dump(out)));
    return image;
}

Result<KeptImage> Images::import(const Reference& reference, const std::string& path,
                                 const std::string& tag) const
{
    UniqueFd source(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    struct stat st{};
    if (!source || ::fstat(source.get(), &st) != 0) return fail_errno("opening {}", printable(path));
    const bool directory = S_ISDIR(st.st_mode);
    std::string digest;
    if (directory) {
        UniqueFd dir(::fcntl(source.get(), F_DUPFD_CLOEXEC, 0));
        const image::oci::Layout layout(std::move(dir), printable(path));
        BERTH_TRY([[maybe_unused]] const auto found, image::oci::find_image(layout, tag));
        BERTH_TRY(const auto index, layout.read(layout.has("oci-layout") ? "index.json" : "manifest.json"));
        digest = sha256_hex(index);
    } else {
        if (!image::is_image_archive(path))
            return fail(Code::Invalid, "{} is neither a layout nor an archive of an image", printable(path));
        BERTH_TRY(digest, image::sha256_of(source.get(), printable(path)));
    }
    const std::string inner = directory ? "layout" : "archive.tar";
    BERTH_TRY(auto known, at(digest));
    if (!known) {
        BERTH_TRY(const auto lock, cache_.lock(fmt::format("{}{}", kFetch, digest.substr(0, 32)), {}));
        BERTH_CHECK(cache_.make(lock, std::string(kImage) + digest, [&](int dir) -> Result<std::string> {
            BERTH_TRY(const auto bytes, copy_in(source.get(), directory, dir, inner));
            json::Object ready;
            ready["bytes"] = bytes;
            ready["created"] = system_clock().now().time_since_epoch().count();
            ready["inner"] = inner;
            return json::dump(ready);
        }));
        BERTH_TRY(known, at(digest));
        if (!known) return fail(Code::Internal, "image {} is gone again", digest);
    }
    known->tag = tag;
    return give_name(*std::move(known), reference);
}

Result<std::optional<KeptImage>> Images::find(const Reference& reference) const
{
    const auto text = read_file_at(cache_.dir(), name_file(reference));
    if (!text && text.error().code == Code::NotFound) return std::nullopt;
    if (!text) return std::unexpected(text.error());
    BERTH_TRY(const auto document, json::parse(*text));
    BERTH_TRY(const auto digest, json::Reader(document).at("digest"));
    BERTH_TRY(const auto digits, digest.string());
    BERTH_TRY(auto image, at(digits));
    if (!image) return image;
    image->name = reference.text();
    BERTH_TRY(const auto tag, json::Reader(document).find("tag"));
    if (tag) {
        BERTH_TRY(image->tag, tag->string());
    }
    return image;
}

Result<std::vector<KeptImage>> Images::list() const
{
    std::vector<KeptImage> out;
    std::vector<std::string> named;
    BERTH_TRY(const auto dir, open_dir(cache_.path()));
    const UniqueFd readable(::openat(dir.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable) return fail_errno("opening {}", cache_.path());
    BERTH_TRY(const auto names, list_names(readable.get()));
    for (const auto& name : names) {
        // One that somebody was killed while writing has an ending more.
        if (!name.starts_with(kName) || !name.ends_with(kCard)) continue;
        BERTH_TRY(const auto text, read_file_at(cache_.dir(), name));
        BERTH_TRY(const auto document, json::parse(text));
        BERTH_TRY(const auto full, json::Reader(document).at("name"));
        BERTH_TRY(const auto wanted, full.string());
        BERTH_TRY(const auto reference, parse_reference(wanted));
        BERTH_TRY(auto image, find(reference));
        if (!image) continue;
        named.push_back(image->digest);
        out.push_back(*std::move(image));
    }
    std::ranges::sort(out, {}, &KeptImage::name);
    for (const auto& name : names) {
        if (!name.starts_with(kImage)) continue;
        const auto digest = name.substr(kImage.size());
        if (std::ranges::find(named, digest) != named.end()) continue;
        BERTH_TRY(auto image, at(digest));
        if (image) out.push_back(*std::move(image));
    }
    return out;
}

Status Images::remove(const KeptImage& image) const
{
    if (!image.name.empty()) {
        BERTH_TRY(const auto reference, parse_reference(image.name));
        if (::unlinkat(cache_.dir(), name_file(reference).c_str(), 0) != 0 && errno != ENOENT)
            return fail_errno("removing the name {}", image.name);
    }
    BERTH_TRY(const auto left, list());
    for (const auto& one : left)
        if (one.digest == image.digest && !one.name.empty()) return {};
    const std::string files = std::string(kImage) + image.digest;
    // First what says that it is whole: killed on the way, it is not there, and not there in part.
    if (::unlinkat(cache_.dir(), (files + "/ready").c_str(), 0) != 0 && errno != ENOENT)
        return fail_errno("removing image {}", image.digest);
    return sys::remove_tree(cache_.dir(), files);
}

Status Images::sweep() const
{
    const UniqueFd readable(::openat(cache_.dir(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!readable) return fail_errno("opening {}", cache_.path());
    BERTH_TRY(const auto names, list_names(readable.get()));
    constexpr std::string_view kEnd = ".tmp";
    for (const auto& name : names) {
        if (name.starts_with(kImage)) { // whole, or left by a removal
            BERTH_TRY(const auto ready, cache_.find(name));
            if (!ready) BERTH_CHECK(sys::remove_tree(cache_.dir(), name));
        }
        if (!name.starts_with(kFetch) || !name.ends_with(kEnd)) continue;
        BERTH_TRY([[maybe_unused]] const bool removed,
                  cache_.remove_unfinished(name.substr(0, name.size() - kEnd.size())));
    }
    return {};
}

} // namespace berth::distribution
