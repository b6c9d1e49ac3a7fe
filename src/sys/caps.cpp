#include "sys/caps.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace berth::sys {

bool has_cap(int cap) noexcept
{
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2]{};
    if (::syscall(SYS_capget, &head, &data[0]) != 0) return false;
    return (data[cap / 32].effective >> (cap % 32) & 1u) != 0;
}

} // namespace berth::sys
