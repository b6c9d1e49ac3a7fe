#pragma once

#include <set>
#include <string>

namespace berth::e2b {

/// What the operator decides for this protocol alone.
struct Settings {
    bool tls = false; ///< clients speak TLS with us: what links begin with
    /// A tenant's template may begin with an image of these; any other would let him make us ask any machine.
    std::set<std::string> registries{};
};

} // namespace berth::e2b
