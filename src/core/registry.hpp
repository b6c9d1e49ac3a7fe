#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocking_pool.hpp"
#include "core/backend.hpp"

namespace berth {

/// What a backend is opened with.
struct BackendOptions {
    std::string state_path;       ///< the state directory of this program
    BlockingPool* pool = nullptr; ///< for calls that block; outlives the backend
};

/// Backends by name. Adding one is a folder, a line where the list is made, and the conformance suite.
class BackendRegistry {
public:
    using Factory = std::function<Result<std::unique_ptr<Backend>>(const BackendOptions&)>;

    /// A name stands for one backend: a second one of it is a bug of ours.
    void add(std::string name, Factory factory);

    /// Sorted.
    [[nodiscard]] std::vector<std::string> names() const;
    /// Refuses a name nobody has, suggesting the nearest.
    [[nodiscard]] Status check(std::string_view name) const;
    [[nodiscard]] Result<std::unique_ptr<Backend>> open(std::string_view name,
                                                        const BackendOptions& options) const;

private:
    std::map<std::string, Factory, std::less<>> factories_;
};

} // namespace berth
