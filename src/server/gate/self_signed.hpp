#pragma once

#include <string>
#include <vector>

#include "server/http/host.hpp"

namespace berth::gate {

/// Files of a certificate that a client trusts when it trusts `authority`.
struct SelfSigned {
    http::TlsFiles files;
    std::string authority; ///< a PEM file
};

/// Makes an authority once, and a certificate for the names (DNS names, also "*.…", and addresses) whenever
/// they differ from those it was made for or it ends soon. All below `directory`, closed to others.
[[nodiscard]] Result<SelfSigned> self_signed(const std::string& directory,
                                             const std::vector<std::string>& names);

} // namespace berth::gate
