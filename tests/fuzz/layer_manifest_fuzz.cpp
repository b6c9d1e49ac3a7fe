// The manifest of a snapshot: it names directories that become part of a root file system.

#include <cstdint>
#include <cstdlib>

#include "backend/local/layer_manifest.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto manifest = berth::local::parse_manifest(text);
    if (!manifest) return 0;
    // Whatever was accepted can be asked for as a path without leading anywhere else.
    for (const auto& layer : manifest->stack)
        if (!berth::local::is_layer_id(layer)) std::abort();
    return 0;
}
