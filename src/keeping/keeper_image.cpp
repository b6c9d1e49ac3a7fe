#include "keeping/keeper_image.hpp"

#include <string_view>

#include "base/sealed_program.hpp"

// The build puts the freestanding program here (src/keeper/CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl berth_keeper_image_begin\n.hidden berth_keeper_image_begin\nberth_keeper_image_begin:\n"
    ".incbin \"" BERTH_KEEPER_IMAGE "\"\n"
    ".globl berth_keeper_image_end\n.hidden berth_keeper_image_end\nberth_keeper_image_end:\n"
    ".popsection\n");
extern "C" const char berth_keeper_image_begin[], berth_keeper_image_end[];

namespace berth::keeping {

Result<UniqueFd> make_keeper_image()
{
    const auto size = static_cast<std::size_t>(berth_keeper_image_end - berth_keeper_image_begin);
    return seal_program("berth-keeper", {berth_keeper_image_begin, size}, 0555);
}

Result<int> keeper_image()
{
    static const Result<UniqueFd> image = make_keeper_image();
    if (!image) return std::unexpected(image.error());
    return image->get();
}

} // namespace berth::keeping
