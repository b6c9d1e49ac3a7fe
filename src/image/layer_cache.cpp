#include "image/layer_cache.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hooks.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/digest.hpp"
#include "image/stack.hpp"
#include "image/unpack.hpp"

namespace berth::image::oci {

namespace {

std::string name_of(const std::string& chain) { return "layer-" + chain; }

/// The file as the manifest promised it, before anything looks into it.
Result<UniqueFd> open_layer(const Layout& layout, const LayerFile& layer)
{
    BERTH_TRY(auto file, layout.open(layer.path));
    struct stat st{};
    if (::fstat(file.get(), &st) != 0) return fail_errno("looking at {}", printable(layer.path));
    if (layer.size && static_cast<std::uint64_t>(st.st_size) != *layer.size)
        return fail(Code::Invalid, "it has {} bytes, not the {} that it should", st.st_size, *layer.size);
    if (layer.sha256.empty()) return file;
    BERTH_TRY(const auto sha256, sha256_of(file.get(), printable(layer.path)));
    if (sha256 != layer.sha256) return fail(Code::Invalid, "it does not have the digest in its name");
    return file;
}

/// What is unpacked is hashed on the way, so a file that changes under us cannot pass for another.
Result<std::string> fill(int dir, const UniqueFd& file, const LayerFile& layer, const Stack& below,
                         Bytes& budget)
{
    BERTH_TRY(const Ids ids, ids_possible_in(dir));
    if (::mkdirat(dir, "root", 0755) != 0) return fail_errno("creating root");
    const UniqueFd root(::openat(dir, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root || ::fchmod(root.get(), 0755) != 0) return fail_errno("opening root");
    UnpackOptions options;
    options.max_bytes = budget;
    options.ids = ids;
    options.below = &below;
    BERTH_TRY(const UnpackReport report, unpack_tar(file.get(), root.get(), options));
    hooks::kill_point("template:unpacked");
    if (report.sha256 != layer.diff_id)
        return fail(Code::Invalid, "its content does not have the digest that the configuration names");
    budget = Bytes{budget.count - report.bytes};
    return fmt::format("{} {} {} entries\n", ids == Ids::Sandbox ? "sandbox" : "maker",
                       report.opaque_root ? "opaque" : "over", report.entries);
}

} // namespace

std::string chain_id(const std::string& below, const std::string& diff_id)
{
    return below.empty() ? diff_id : sha256_hex(fmt::format("sha256:{} sha256:{}", below, diff_id));
}

Result<std::optional<Layer>> find_layer(const Cache& cache, const std::string& chain)
{
    BERTH_TRY(const auto record, cache.use(name_of(chain)));
    if (!record) return std::nullopt;
    return Layer{.chain = chain,
                 .root = fmt::format("{}/{}/root", cache.path(), name_of(chain)),
                 .opaque_root = record->find(" opaque ") != std::string::npos};
}

std::vector<std::string> as_roots(const std::vector<Layer>& lowest_first)
{
    std::vector<std::string> roots;
    for (auto at = lowest_first.rbegin(); at != lowest_first.rend(); ++at) {
        roots.push_back(at->root);
        if (at->opaque_root) break;
    }
    return roots;
}

Result<std::vector<Layer>> ensure_layers(const Cache& cache, const Layout& layout, const Image& image,
                                         const Progress& progress)
{
    std::vector<Layer> layers;
    Bytes budget = UnpackOptions{}.max_bytes;
    std::string chain;
    for (const auto& file : image.layers) {
        chain = chain_id(chain, file.diff_id);
        BERTH_TRY(auto found, find_layer(cache, chain));
        if (!found) {
            BERTH_TRY(const CacheLock lock, cache.lock("layer", progress));
            BERTH_TRY(found, find_layer(cache, chain));
            const std::string what = fmt::format("layer {} of {} ({}) of {}", layers.size() + 1,
                                                 image.layers.size(), printable(file.path), layout.what());
            const auto make = [&]() -> Status {
                if (found) return {};
                if (progress) progress(fmt::format("unpacking {} (once for its content)", what));
                BERTH_TRY(const UniqueFd opened, open_layer(layout, file));
                BERTH_TRY(const Stack below, Stack::open(as_roots(layers)));
                return cache.make(lock, name_of(chain),
                                  [&](int dir) { return fill(dir, opened, file, below, budget); });
            };
            if (auto made = make(); !made)
                return std::unexpected(std::move(made).error().while_doing("unpacking " + what));
            BERTH_TRY(found, find_layer(cache, chain));
            if (!found) return fail(Code::Internal, "layer {} is gone right after it was made", chain);
        }
        layers.push_back(*std::move(found));
    }
    return layers;
}

} // namespace berth::image::oci
