#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/registry.hpp"

namespace berth {

/// The backends of one program, each opened when it is first asked for.
class Backends {
public:
    Backends(const BackendRegistry& registry, BackendOptions options)
        : registry_(&registry), options_(std::move(options))
    {
    }

    /// Lives as long as we do. Opening one blocks.
    [[nodiscard]] Result<Backend*> get(const std::string& name);
    /// The same without waiting for anybody; null: get() knows more.
    [[nodiscard]] Backend* opened(const std::string& name) noexcept;
    [[nodiscard]] const BackendRegistry& registry() const noexcept { return *registry_; }

private:
    const BackendRegistry* registry_;
    BackendOptions options_;
    std::mutex mutex_;
    std::map<std::string, std::unique_ptr<Backend>> open_;
};

} // namespace berth
