#include "backend/local/plan.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "image/directory_template.hpp"
#include "image/host_template.hpp"
#include "image/oci_template.hpp"
#include "image/tar_template.hpp"

namespace berth::local {

void add_identity_first(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    if (plan.identity->mode != IdMode::Own) return;
    stage(list, parent, "writing the id maps");
    // A live view keeps the numbers the host's own accounts have.
    const bool live = plan.layers.kind == Template::Kind::Live;
    const auto uid = ::geteuid();
    const auto gid = ::getegid();
    list.write_file("/proc/self/setgroups", "deny");
    list.write_file("/proc/self/uid_map", fmt::format("{} {} 1", live ? uid : kUserId, uid));
    list.write_file("/proc/self/gid_map", fmt::format("{} {} 1", live ? gid : kUserId, gid));
}

namespace {

Status use_image(const StateDir& state, const Template& root,
                 const std::function<void(std::string_view)>& progress, RootLayers& layers)
{
    BERTH_TRY(auto image, image::ensure_oci_template(state.templates(), root.path, root.tag, progress));
    layers.root = layers.etc_root = image.roots.front();
    layers.more_roots.assign(image.roots.begin() + 1, image.roots.end());
    layers.image = std::move(image.defaults);
    layers.identity = std::move(image.identity);
    return {};
}

} // namespace

std::vector<std::string> RootLayers::stack() const
{
    std::vector<std::string> out{etc_root};
    out.insert(out.end(), more_roots.begin(), more_roots.end());
    return out;
}

Result<RootLayers> resolve_template(const StateDir& state, const Template& root,
                                    const std::function<void(std::string_view)>& progress)
{
    RootLayers layers{.kind = root.kind};
    switch (root.kind) {
    case Template::Kind::Host: {
        BERTH_TRY(const auto host, image::ensure_host_template(state.templates(), progress));
        layers.root = layers.etc_root = host.skeleton;
        layers.usr = "/usr";
        layers.usr_mask = host.usr_mask;
        layers.devices = host.devices;
        layers.identity = host.fingerprint;
        break;
    }
    case Template::Kind::Live: layers.etc_root = "/"; break;
    case Template::Kind::Directory: {
        BERTH_TRY(layers.root, image::directory_template(root.path, {state.path()}));
        layers.etc_root = layers.root;
        struct stat st{};
        if (::stat(layers.root.c_str(), &st) != 0) return fail_errno("looking at {}", layers.root);
        layers.identity = fmt::format("{:x}:{:x}", st.st_dev, st.st_ino);
        break;
    }
    case Template::Kind::Image:
        return fail(
            Code::Unsupported,
            "image {} has to come from a registry or an engine, which backend local does not ask: save it "
            "to a file (docker save) and use that, or --backend docker",
            root.path);
    case Template::Kind::Oci: BERTH_CHECK(use_image(state, root, progress, layers)); break;
    case Template::Kind::Tar: {
        if (image::is_image_archive(root.path)) {
            BERTH_CHECK(use_image(state, root, progress, layers));
            break;
        }
        BERTH_TRY(const auto tar, image::ensure_tar_template(state.templates(), root.path, progress));
        layers.root = layers.etc_root = tar.root;
        layers.identity = tar.sha256;
        break;
    }
    }
    return layers;
}

} // namespace berth::local
