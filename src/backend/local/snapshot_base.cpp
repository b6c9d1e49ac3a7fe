#include "backend/local/snapshot_base.hpp"

#include <algorithm>

#include "core/image_defaults.hpp"
#include "image/tar_template.hpp"

namespace berth::local {

namespace {

RootLayers layers_of(image::TarTemplate tar)
{
    RootLayers out{.kind = Template::Kind::Tar};
    out.root = out.etc_root = std::move(tar.root);
    out.identity = std::move(tar.sha256);
    return out;
}

/// A manifest may say anything; the hash becomes part of a name.
bool is_sha256(std::string_view text)
{
    return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

} // namespace

Result<std::optional<RootLayers>> base_of(const StateDir& state, const SandboxSpec& spec,
                                          const SnapshotSource& from,
                                          const std::optional<LayerManifest>& manifest,
                                          const Pools::Progress& progress)
{
    std::optional<RootLayers> out;
    if (from.kind == snapshot_kind::kRootTar) {
        const std::string file = fmt::format("{}/{}", from.directory, snapshot_kind::kRootTarFile);
        BERTH_TRY(auto tar, image::ensure_tar_template(state.templates(), file, progress));
        out = layers_of(std::move(tar));
    } else if (manifest && is_sha256(manifest->identity)) {
        BERTH_TRY(auto tar, image::find_tar_template(state.templates(), manifest->identity));
        if (tar) out = layers_of(*std::move(tar));
    }
    if (!out) return out;
    // What an image asks for its processes is not in its files, but beside them; snapshots of before that
    // have the template's word.
    BERTH_TRY(auto asked, kept_image_defaults(from.directory));
    if (asked)
        out->image.emplace(std::move(asked->env), std::move(asked->workdir), std::move(asked->user));
    else if (const auto image = resolve_template(state, spec.root, progress))
        out->image = image->image;
    return out;
}

} // namespace berth::local
