#include "prove/prober_image.hpp"

#include "base/sealed_program.hpp"

// The build puts the static program here (src/prober/CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl berth_prober_image_begin\n.hidden berth_prober_image_begin\nberth_prober_image_begin:\n"
    ".incbin \"" BERTH_PROBER_IMAGE "\"\n"
    ".globl berth_prober_image_end\n.hidden berth_prober_image_end\nberth_prober_image_end:\n"
    ".popsection\n");
extern "C" const char berth_prober_image_begin[], berth_prober_image_end[];

namespace berth::prove {

std::string_view prober_bytes()
{
    return {berth_prober_image_begin,
            static_cast<std::size_t>(berth_prober_image_end - berth_prober_image_begin)};
}

Result<UniqueFd> make_prober_image()
{
    // Who may run it but not read it cannot be looked into.
    return seal_program("berth-prober", prober_bytes(), 0111);
}

} // namespace berth::prove
