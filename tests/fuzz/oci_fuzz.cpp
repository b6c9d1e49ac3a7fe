// Any bytes as a document of an image: the first byte says which one. Nothing crashes, a refusal is never
// our own fault, and what is accepted keeps the bounds that its users rely on.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "image/oci_choose.hpp"
#include "image/oci_document.hpp"

namespace {

using namespace berth;
using namespace berth::image::oci;

void require(bool held)
{
    if (!held) ::abort();
}

template <class T> bool read(const Result<T>& result)
{
    require(result || result.error().code != Code::Internal);
    return result.has_value();
}

void check(const Descriptor& descriptor)
{
    require(descriptor.sha256.size() == 64);
    require(descriptor.sha256.find_first_not_of("0123456789abcdef") == std::string::npos);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    switch (data[0]) {
    case 'i': {
        const auto index = parse_index(text);
        if (!read(index)) break;
        require(index->size() <= kMostManifests);
        for (const auto& one : *index) check(one);
        for (const char* tag : {"", "latest"}) {
            const auto chosen = choose(*index, tag, "amd64");
            if (read(chosen))
                require(chosen->kind == Descriptor::Kind::Index ||
                        chosen->kind == Descriptor::Kind::Manifest);
        }
        break;
    }
    case 'm': {
        const auto manifest = parse_manifest(text);
        if (!read(manifest)) break;
        require(manifest->layers.size() <= kMostLayers);
        check(manifest->config);
        for (const auto& one : manifest->layers) check(one);
        break;
    }
    case 'c': {
        const auto config = parse_config(text);
        if (!read(config)) break;
        require(config->diff_ids.size() <= kMostLayers);
        require(config->defaults.workdir.empty() || config->defaults.workdir.front() == '/');
        for (const auto& [name, value] : config->defaults.env)
            require(!name.empty() && name.find('=') == std::string::npos &&
                    value.find('\0') == std::string::npos);
        break;
    }
    case 'a': {
        const auto images = parse_archive_manifest(text);
        if (read(images)) static_cast<void>(read(choose(*images, "latest")));
        break;
    }
    default: static_cast<void>(read(parse_digest(text)));
    }
    return 0;
}
