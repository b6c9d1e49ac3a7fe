#pragma once

#include <poll.h>
#include <unistd.h>

namespace berth::cli {

/// Whoever read our stdout has had enough (| head -1): not worth a word.
[[nodiscard]] inline bool reader_gone()
{
    pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
    return ::poll(&out, 1, 0) > 0 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

} // namespace berth::cli
