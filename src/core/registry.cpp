#include "core/registry.hpp"

#include <cassert>

#include "base/strings.hpp"

namespace berth {

void BackendRegistry::add(std::string name, Factory factory)
{
    [[maybe_unused]] const bool fresh = factories_.emplace(std::move(name), std::move(factory)).second;
    assert(fresh);
}

std::vector<std::string> BackendRegistry::names() const
{
    std::vector<std::string> out;
    for (const auto& [name, factory] : factories_) out.push_back(name);
    return out;
}

Status BackendRegistry::check(std::string_view name) const
{
    if (factories_.contains(name)) return {};
    const auto known = names();
    if (const auto near = nearest(name, known); !near.empty())
        return fail(Code::Unsupported, "no backend '{}': did you mean {}?", printable(name, 40), near);
    return fail(Code::Unsupported, "no backend '{}': this version has {}", printable(name, 40),
                fmt::join(known, ", "));
}

Result<std::unique_ptr<Backend>> BackendRegistry::open(std::string_view name,
                                                       const BackendOptions& options) const
{
    BERTH_CHECK(check(name));
    return factories_.find(name)->second(options);
}

} // namespace berth
