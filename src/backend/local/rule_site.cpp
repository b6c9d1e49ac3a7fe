#include <unistd.h>

#include "backend/local/plan.hpp"
#include "base/hooks.hpp"
#include "image/stack.hpp"

namespace berth::local {

namespace {

std::string link_in_template(const RootLayers& layers, const std::string& path)
{
    const bool live = layers.kind == Template::Kind::Live; // its root is the host's own
    if (layers.root.empty() && !live) return {};
    char to[256];
    ssize_t n = 0;
    if (layers.more_roots.empty()) {
        n = ::readlink((layers.root + path).c_str(), &to[0], sizeof to);
    } else {
        const auto stack = image::Stack::open(layers.stack());
        if (!stack) return {};
        const auto found = stack->find(path, image::Stack::LastLink::Keep);
        if (found && *found) n = ::readlinkat((*found)->object.get(), "", &to[0], sizeof to);
    }
    return n <= 0 || n == static_cast<ssize_t>(sizeof to) ? std::string{}
                                                          : std::string(&to[0], static_cast<std::size_t>(n));
}

} // namespace

RuleSite site_of(const Plan& plan)
{
    RuleSite out{
        .files = plan.files,
        .shown = {},
        .live = plan.layers.kind == Template::Kind::Live,
        .hidden = kHiddenInLive,
        .link = [&layers = plan.layers](const std::string& path) { return link_in_template(layers, path); },
        .root_id = std::nullopt,
        .protected_paths = plan.protected_paths,
        .state = plan.state->fd()};
    // What mounts cannot hold, the supervisor does.
    if (plan.supervision != nullptr || hooks::wall_off("supervisor"))
        std::erase_if(out.files.rules, [](const policy::BoundRule& rule) { return !rule.pattern.empty(); });
    for (const Bind& bind : plan.binds)
        out.shown.push_back({.source = bind.source.get(),
                             .path = bind.path,
                             .target = bind.target,
                             .mode = bind.mode,
                             .file = bind.file,
                             .workspace = bind.workspace});
    if (plan.identity->mode == IdMode::Mapped) out.root_id = plan.identity->outside(0);
    return out;
}

} // namespace berth::local
