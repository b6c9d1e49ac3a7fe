#pragma once

namespace berth::keeping {
}

namespace berth::local {

// What this backend shares with others whose instances have a keeper goes by its plain name here.
using namespace keeping; // NOLINT(google-build-using-namespace)

} // namespace berth::local
