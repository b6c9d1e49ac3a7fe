#include "prove/prober_image.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"

// The build puts the static program here (src/prober/CMakeLists.txt).
asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".globl berth_prober_image_begin\n.hidden berth_prober_image_begin\nberth_prober_image_begin:\n"
    ".incbin \"" BERTH_PROBER_IMAGE "\"\n"
    ".globl berth_prober_image_end\n.hidden berth_prober_image_end\nberth_prober_image_end:\n"
    ".popsection\n");
extern "C" const char berth_prober_image_begin[], berth_prober_image_end[];

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace berth::prove {

std::string_view prober_bytes()
{
    return {berth_prober_image_begin,
            static_cast<std::size_t>(berth_prober_image_end - berth_prober_image_begin)};
}

Result<UniqueFd> make_prober_image()
{
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    // MFD_EXEC is asked for by name since 6.3 and unknown before.
    UniqueFd fd(::memfd_create("berth-prober", flags | MFD_EXEC));
    if (!fd && errno == EINVAL) fd.reset(::memfd_create("berth-prober", flags));
    if (!fd) return fail_errno("making a memory file for the prober");
    BERTH_CHECK(write_all(fd.get(), prober_bytes()));
    // Who may run it but not read it cannot be looked into from its first moment on.
    if (::fchmod(fd.get(), 0111) != 0) return fail_errno("making the prober executable");
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail_errno("sealing the prober");
    if (::lseek(fd.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding the prober");
    return fd;
}

} // namespace berth::prove
