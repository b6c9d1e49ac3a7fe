#include "backend/local/template_use.hpp"

#include "image/cache.hpp"

namespace berth::local {

std::vector<std::string> templates_of(const StateDir& state, const RootLayers& layers)
{
    const std::string top = state.templates() + "/";
    std::vector<std::string> paths = layers.more_roots;
    paths.push_back(layers.root);
    std::vector<std::string> out;
    for (const auto& path : paths) {
        if (!path.starts_with(top) || layers.kind == Template::Kind::Host) continue;
        out.push_back(path.substr(top.size(), path.find('/', top.size()) - top.size()));
    }
    return out;
}

Result<std::vector<UniqueFd>> hold_templates(const StateDir& state, const RootLayers& layers)
{
    std::vector<UniqueFd> out;
    const auto names = templates_of(state, layers);
    if (names.empty()) return out;
    BERTH_TRY(const auto cache, image::Cache::open(state.templates()));
    for (const auto& name : names) {
        BERTH_TRY(auto one, cache.hold(name));
        out.push_back(std::move(one));
    }
    return out;
}

} // namespace berth::local
