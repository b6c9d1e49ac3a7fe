#include "image/oci_template.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/archive_file.hpp"
#include "image/digest.hpp"
#include "image/layer_cache.hpp"
#include "image/tar_reader.hpp"
#include "image/tree_writer.hpp"
#include "image/unpack.hpp"
#include "sys/remove_tree.hpp"

namespace berth::image {

namespace {

constexpr char kUnpacked[] = "in";

/// What is remembered of an archive, so that it need not be opened again.
std::string record_of(const std::vector<oci::Layer>& layers, const oci::Defaults& defaults)
{
    json::Array chains;
    for (const auto& layer : layers) chains.emplace_back(layer.chain);
    json::Object env;
    for (const auto& [name, value] : defaults.env) env[name] = value;
    json::Object out;
    out["layers"] = std::move(chains);
    out["env"] = std::move(env);
    out["workdir"] = defaults.workdir;
    out["user"] = defaults.user;
    return json::dump(out);
}

/// Nothing when it is not made, or when a layer of it is gone.
Result<std::optional<OciTemplate>> find(const Cache& cache, const std::string& name)
{
    BERTH_TRY(const auto text, cache.use(name));
    if (!text) return std::nullopt;
    BERTH_TRY(const auto document, json::parse(*text));
    const json::Reader at(document);
    BERTH_TRY(const auto chains_at, at.at("layers"));
    BERTH_TRY(const auto chains, chains_at.strings());
    std::vector<oci::Layer> layers;
    for (const auto& chain : chains) {
        BERTH_TRY(auto layer, oci::find_layer(cache, chain));
        if (!layer) return std::nullopt;
        layers.push_back(*std::move(layer));
    }
    if (layers.empty()) return std::nullopt;
    OciTemplate out{.roots = oci::as_roots(layers), .defaults = {}, .identity = layers.back().chain};
    BERTH_TRY(const auto workdir, at.at("workdir"));
    BERTH_TRY(out.defaults.workdir, workdir.string());
    BERTH_TRY(const auto user, at.at("user"));
    BERTH_TRY(out.defaults.user, user.string());
    BERTH_TRY(const auto env, at.at("env"));
    BERTH_TRY(const auto variables, env.members());
    for (const auto& [key, value] : variables) {
        BERTH_TRY(out.defaults.env[key], value.string());
    }
    return out;
}

Result<UniqueFd> open_directory(int dir, const char* name)
{
    UniqueFd fd(::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

/// The archive is laid out beside what it becomes, and removed again when its layers are in the cache.
Result<std::string> fill(int dir, const Cache& cache, const Archive& archive, const std::string& tag,
                         const Progress& progress)
{
    if (::mkdirat(dir, kUnpacked, 0700) != 0) return fail_errno("creating {}", kUnpacked);
    BERTH_TRY(auto in, open_directory(dir, kUnpacked));
    if (::lseek(archive.file.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding {}", archive.path);
    BERTH_TRY(const UnpackReport report, unpack_tar(archive.file.get(), in.get(), {.ids = Ids::Maker}));
    static_cast<void>(report);
    BERTH_CHECK(check_unchanged(archive));
    const oci::Layout layout(std::move(in), archive.path);
    BERTH_TRY(const auto image, oci::find_image(layout, tag));
    BERTH_TRY(const auto layers, oci::ensure_layers(cache, layout, image, progress));
    BERTH_CHECK(sys::remove_tree(dir, kUnpacked));
    return record_of(layers, image.defaults);
}

std::string image_name(const std::string& sha256, const std::string& tag)
{
    return "image-" + sha256_hex(fmt::format("{}\n{}", sha256, tag));
}

Result<OciTemplate> from_archive(const Cache& cache, const std::string& path, const std::string& tag,
                                 const Progress& progress, const Clock& clock)
{
    BERTH_TRY(const Archive archive, open_archive(path));
    const auto known = known_digest(cache, archive);
    if (known) {
        BERTH_TRY(auto found, find(cache, image_name(*known, tag)));
        if (found) return *std::move(found);
    }
    BERTH_TRY(const CacheLock lock, cache.lock("tar", progress));
    if (progress) progress("reading image " + archive.path);
    BERTH_TRY(const std::string sha256, sha256_of(archive.file.get(), archive.path));
    const std::string name = image_name(sha256, tag);
    BERTH_TRY(auto found, find(cache, name));
    if (!found) {
        BERTH_CHECK(
            cache.make(lock, name, [&](int dir) { return fill(dir, cache, archive, tag, progress); }));
        BERTH_TRY(found, find(cache, name));
        if (!found) return fail(Code::Internal, "{} is gone right after it was made", name);
    }
    if (!known) remember_digest(cache, archive, sha256, clock);
    return *std::move(found);
}

bool names_an_image(std::string_view name)
{
    const std::string_view first = name.substr(0, name.find('/'));
    for (const std::string_view known :
         {"blobs", "index.json", "manifest.json", "oci-layout", "repositories"})
        if (first == known) return true;
    // Of docker's older archives: "<64 digits>.json", "<64 digits>/layer.tar"; of skopeo's "<64 digits>.tar".
    const std::string_view digits = first.substr(0, first.find('.'));
    return digits.size() == 64 && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

} // namespace

Result<OciTemplate> ensure_oci_template(const std::string& cache_dir, const std::string& path,
                                        const std::string& tag, const Progress& progress, const Clock& clock)
{
    BERTH_TRY(const Cache cache, Cache::open(cache_dir));
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) return fail_errno("image {}", printable(path));
    if (!S_ISDIR(st.st_mode)) {
        auto made = from_archive(cache, path, tag, progress, clock);
        if (!made)
            return std::unexpected(
                std::move(made).error().while_doing("making a template of " + printable(path)));
        return made;
    }
    UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir) return fail_errno("opening image {}", printable(path));
    const oci::Layout layout(std::move(dir), printable(path));
    BERTH_TRY(const auto image, oci::find_image(layout, tag));
    BERTH_TRY(const auto layers, oci::ensure_layers(cache, layout, image, progress));
    return OciTemplate{
        .roots = oci::as_roots(layers), .defaults = image.defaults, .identity = layers.back().chain};
}

bool is_image_archive(const std::string& path)
{
    const auto archive = open_archive(path);
    if (!archive) return false;
    auto reader = TarReader::open(archive->file.get(), 16_MiB);
    if (!reader) return false;
    for (TarEntry entry;;) {
        const auto more = reader->next(entry);
        if (!more || !*more) return false;
        const auto name = clean_name(entry.name);
        if (!name) return false;
        if (!name->empty()) return names_an_image(*name);
    }
}

} // namespace berth::image
