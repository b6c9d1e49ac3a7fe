#include "lifecycle/backends.hpp"

namespace berth {

Result<Backend*> Backends::get(const std::string& name)
{
    const std::scoped_lock lock(mutex_);
    auto& slot = open_[name];
    if (slot) return slot.get();
    auto opened = registry_->open(name, options_);
    if (!opened) {
        open_.erase(name);
        return std::unexpected(std::move(opened).error());
    }
    slot = *std::move(opened);
    return slot.get();
}

Backend* Backends::opened(const std::string& name) noexcept
{
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    const auto at = open_.find(name);
    return at == open_.end() ? nullptr : at->second.get();
}

} // namespace berth
