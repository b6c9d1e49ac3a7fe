#include "base/sealed_program.hpp"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace berth {

Result<UniqueFd> seal_program(const char* name, std::string_view bytes, mode_t mode)
{
    constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    // MFD_EXEC is asked for by name since 6.3 and unknown before.
    UniqueFd fd(::memfd_create(name, flags | MFD_EXEC));
    if (!fd && errno == EINVAL) fd.reset(::memfd_create(name, flags));
    if (!fd) return fail_errno("making a memory file for {}", name);
    BERTH_CHECK(write_all(fd.get(), bytes));
    if (::fchmod(fd.get(), mode) != 0) return fail_errno("making {} executable", name);
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail_errno("sealing {}", name);
    if (::lseek(fd.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding {}", name);
    return fd;
}

} // namespace berth
