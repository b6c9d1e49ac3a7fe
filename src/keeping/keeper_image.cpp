#include "keeping/keeper_image.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string_view>

#include "base/io.hpp"

// The build puts the freestanding program here (src/keeper/CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl berth_keeper_image_begin\n.hidden berth_keeper_image_begin\nberth_keeper_image_begin:\n"
    ".incbin \"" BERTH_KEEPER_IMAGE "\"\n"
    ".globl berth_keeper_image_end\n.hidden berth_keeper_image_end\nberth_keeper_image_end:\n"
    ".popsection\n");
extern "C" const char berth_keeper_image_begin[], berth_keeper_image_end[];

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace berth::keeping {

Result<UniqueFd> make_keeper_image()
{
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    // MFD_EXEC is asked for by name since 6.3 and unknown before.
    UniqueFd fd(::memfd_create("berth-keeper", flags | MFD_EXEC));
    if (!fd && errno == EINVAL) fd.reset(::memfd_create("berth-keeper", flags));
    if (!fd) return fail_errno("making a memory file for the keeper");
    const auto size = static_cast<std::size_t>(berth_keeper_image_end - berth_keeper_image_begin);
    BERTH_CHECK(write_all(fd.get(), std::string_view(berth_keeper_image_begin, size)));
    if (::fchmod(fd.get(), 0555) != 0) return fail_errno("making the keeper executable");
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail_errno("sealing the keeper");
    return fd;
}

Result<int> keeper_image()
{
    static const Result<UniqueFd> image = make_keeper_image();
    if (!image) return std::unexpected(image.error());
    return image->get();
}

} // namespace berth::keeping
