#pragma once

#include <string>

namespace berth::image {

/// Sixteen hexadecimal digits that change when the host's `/usr`, its package database or one of
/// the copied parts of `/etc` changes, or when somebody else asks. Some thirty stat calls.
///
/// It sees packages, and files that come and go in the usual directories; a file deep below
/// `/usr` that is changed by hand without its package is not seen.
[[nodiscard]] std::string host_fingerprint(int host_root);

} // namespace berth::image
