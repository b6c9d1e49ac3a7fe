#include "cli/image_root.hpp"

#include "distribution/images.hpp"

namespace berth::cli {

Status use_pulled_image(const Common& common, const std::string& backend, SandboxSpec& spec)
{
    if (backend != "local" || spec.root.kind != Template::Kind::Image) return {};
    BERTH_TRY(const auto reference, distribution::parse_reference(spec.root.path));
    BERTH_TRY(const auto path, state_path(common));
    BERTH_TRY(const auto images, distribution::Images::open(path));
    BERTH_TRY(const auto image, images.find(reference));
    if (!image)
        return fail(Code::NotFound, "image {} is not here: berth template pull {}", reference.text(),
                    spec.root.path);
    spec.root = Template{.kind = Template::Kind::Oci, .path = image->path, .tag = image->tag};
    return {};
}

} // namespace berth::cli
