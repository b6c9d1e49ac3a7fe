// Locks of an open file description (fcntl(2), F_OFD_SETLK): unlike the classic ones they exclude threads
// of one process, too, and are not lost when some other descriptor of the file is closed.

#include "lifecycle/key_lock.hpp"

#include <fcntl.h>

#include <algorithm>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

/// 62 bits of a hash: two names share a byte about never, and would only wait for each other.
off_t place_of(const std::string& name)
{
    return static_cast<off_t>(std::stoull(sha256_hex(name).substr(0, 16), nullptr, 16) >> 2);
}

} // namespace

Result<std::optional<KeyLock>> KeyLock::try_take(const std::string& file, const std::string& name)
{
    UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno("opening {}", file);
    struct flock range{};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = place_of(name);
    range.l_len = 1;
    if (::fcntl(fd.get(), F_OFD_SETLK, &range) == 0) return KeyLock(std::move(fd));
    if (errno == EAGAIN || errno == EACCES) return std::optional<KeyLock>{};
    return fail_errno("locking {}", printable(name, 80));
}

Task<Result<KeyLock>> KeyLock::take(std::string file, std::string name, std::chrono::milliseconds patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    for (std::chrono::milliseconds pause = 1ms;; pause = std::min(pause * 2, 25ms)) {
        BERTH_CO_TRY(auto taken, try_take(file, name));
        if (taken) co_return *std::move(taken);
        if (std::chrono::steady_clock::now() >= deadline)
            co_return fail(Code::Unavailable, "somebody else is at work on '{}': try again",
                           printable(name, 80));
        timer.expires_after(pause);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
}

} // namespace berth
