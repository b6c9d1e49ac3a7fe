#pragma once

#include <unistd.h>

namespace berth::supervisor {

/// Owns one descriptor, where there is no library to own it.
class Fd {
public:
    Fd() = default;
    explicit Fd(long fd) : fd_(fd < 0 ? -1 : static_cast<int>(fd)) {}
    Fd(Fd&& other) noexcept : fd_(other.release()) {}
    Fd& operator=(Fd&& other) noexcept { return reset(other.release()), *this; }
    ~Fd() { reset(-1); }
    void reset(int fd)
    {
        if (fd_ >= 0) ::close(fd_);
        fd_ = fd;
    }
    int release()
    {
        const int fd = fd_;
        fd_ = -1;
        return fd;
    }
    [[nodiscard]] int get() const { return fd_; }
    explicit operator bool() const { return fd_ >= 0; }

private:
    int fd_ = -1;
};

} // namespace berth::supervisor
