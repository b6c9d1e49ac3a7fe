#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.hpp"

namespace berth::test {

/// A unix socket that leads to another one, until it is told to break: the first connections come through,
/// the next gets some bytes of its answer, and after that nobody answers at all.
class CutRelay {
public:
    CutRelay(std::string at, std::string to) : at_(std::move(at)), to_(std::move(to))
    {
        listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const auto place = address(at_);
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
            ::listen(listener_.get(), 64) != 0)
            std::abort();
        thread_ = std::jthread([this](const std::stop_token& stop) { accept_all(stop); });
    }
    CutRelay(const CutRelay&) = delete;
    CutRelay& operator=(const CutRelay&) = delete;
    ~CutRelay()
    {
        thread_.request_stop();
        thread_.join();
    }

    static constexpr long kAll = 1L << 40;
    /// From now on so many connections are good, and of the next one's answer so many bytes.
    void allow(long connections, long bytes = 0)
    {
        bytes_ = bytes;
        left_ = connections;
    }
    [[nodiscard]] const std::string& path() const noexcept { return at_; }

private:
    static sockaddr_un address(const std::string& path)
    {
        sockaddr_un out{};
        out.sun_family = AF_UNIX;
        std::memcpy(&out.sun_path[0], path.c_str(), path.size() + 1);
        return out;
    }

    void accept_all(const std::stop_token& stop)
    {
        std::vector<std::jthread> open;
        while (!stop.stop_requested()) {
            pollfd waiting{.fd = listener_.get(), .events = POLLIN, .revents = 0};
            if (::poll(&waiting, 1, 20) <= 0) continue;
            UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            const long turn = left_--;
            const long bytes = turn > 0 ? kAll : turn == 0 ? bytes_.load() : 0;
            if (bytes == 0) continue; // it ends at once
            open.emplace_back([this, bytes](const std::stop_token& end,
                                            UniqueFd from) { relay(end, std::move(from), bytes); },
                              std::move(client));
        }
    }

    void relay(const std::stop_token& stop, const UniqueFd& client, long bytes) const
    {
        const UniqueFd engine(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const auto place = address(to_);
        if (::connect(engine.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) return;
        std::vector<char> piece(1 << 16);
        pollfd both[2] = {{.fd = client.get(), .events = POLLIN, .revents = 0},
                          {.fd = engine.get(), .events = POLLIN, .revents = 0}};
        while (!stop.stop_requested()) {
            if (::poll(&both[0], 2, 20) <= 0) continue;
            for (int i = 0; i < 2; ++i) {
                if (both[i].revents == 0) continue;
                const ssize_t n = ::read(both[i].fd, piece.data(), piece.size());
                if (n <= 0 && i == 0) {
                    ::shutdown(engine.get(), SHUT_WR);
                    both[0].fd = -1;
                    continue;
                }
                if (n <= 0) return;
                const long some = i == 0 ? n : std::min<long>(n, bytes);
                if (i == 1) bytes -= some;
                if (!write_some(both[1 - i].fd, piece.data(), some) || bytes == 0) return;
            }
        }
    }

    static bool write_some(int fd, const char* from, long count)
    {
        while (count > 0) {
            const ssize_t n = ::send(fd, from, static_cast<std::size_t>(count), MSG_NOSIGNAL);
            if (n <= 0) return false;
            from += n;
            count -= n;
        }
        return true;
    }

    std::string at_;
    std::string to_;
    UniqueFd listener_;
    std::atomic<long> left_ = kAll;
    std::atomic<long> bytes_ = 0;
    std::jthread thread_;
};

} // namespace berth::test
