#include "keeping/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <thread>

namespace berth::keeping {

using namespace std::chrono_literals;

/// It knows no deadline itself, so it is asked again and again.
bool lock_within(int fd, Use use, std::chrono::milliseconds patience)
{
    const int how = use == Use::Alone ? LOCK_EX : LOCK_SH;
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto pause = 200us; ::flock(fd, how | LOCK_NB) != 0; pause = std::min(pause * 2, 10'000us)) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        std::this_thread::sleep_for(pause);
    }
    return true;
}

bool being_changed(int directory)
{
    // A description of our own: a lock on the caller's would be changed by asking.
    const UniqueFd own(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return !own || !lock_within(own.get(), Use::Shared, 100ms);
}

} // namespace berth::keeping
