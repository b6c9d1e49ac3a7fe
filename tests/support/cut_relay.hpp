#pragma once

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "support/socket_address.hpp"

namespace berth::test {

/// A socket that leads to an engine until it is told to break: the first connections come through, the next
/// gets some bytes of its answer, and after that nobody answers at all. Or the engine itself is struck down
/// in the middle of a request. Places are paths of unix sockets, or IPv4 addresses with a port.
class CutRelay {
public:
    CutRelay(const std::string& at, std::string to) : to_(std::move(to))
    {
        const SocketAddress place(at);
        listener_.reset(::socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::bind(listener_.get(), place.get(), place.size()) != 0 || ::listen(listener_.get(), 64) != 0)
            std::abort();
        at_ = "unix://" + at;
        if (place.family() == AF_INET) {
            sockaddr_in bound{};
            socklen_t size = sizeof bound;
            ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &size);
            at_ = "tcp://" + at.substr(0, at.find(':') + 1) + std::to_string(ntohs(bound.sin_port));
        }
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

    enum class Moment {
        Asked,   ///< the request is on its way; of a long one the first part
        Answered ///< the answer comes, and nobody hears it; of a long one the first part was heard
    };
    /// The next request but `changes` that change something at the engine or bring much of it is its last.
    void strike_at(long changes, Moment moment, std::function<void()> strike)
    {
        const std::scoped_lock lock(mutex_);
        changes_ = changes;
        moment_ = moment;
        strike_ = std::move(strike);
        doomed_.clear();
    }
    /// Called with the first line of each request that changes something, before the engine gets it.
    void before_changes(std::function<void(const std::string&)> call)
    {
        const std::scoped_lock lock(mutex_);
        before_ = std::move(call);
    }
    /// From now on each request is asked for by its first line whether it gets through: words are a refusal
    /// of the engine's.
    void refuse(std::function<std::string(const std::string&)> words)
    {
        const std::scoped_lock lock(mutex_);
        refuse_ = std::move(words);
    }
    /// The request that was struck, by now; empty: it never came.
    [[nodiscard]] std::string struck()
    {
        std::unique_lock lock(mutex_);
        // One whose client has gone before so many bytes is never struck.
        const auto over = [&] { return doomed_.empty() || !strike_; };
        if (!changed_.wait_for(lock, std::chrono::seconds(120), over))
            ADD_FAILURE() << doomed_ << " was not struck";
        return doomed_;
    }
    /// As DOCKER_HOST has it.
    [[nodiscard]] const std::string& host() const noexcept { return at_; }

private:
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

    /// How many bytes of a request, or of its answer, go through before the engine is struck.
    struct Doom {
        long asked = kAll;
        long answered = kAll;
    };
    std::string refusal(const std::string& head)
    {
        const std::scoped_lock lock(mutex_);
        const std::string words = refuse_ ? refuse_(head.substr(0, head.find('\r'))) : std::string{};
        if (words.empty()) return {};
        const std::string body = "{\"message\":\"" + words + "\"}\n";
        return "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nConnection: "
               "close\r\nContent-Length: " +
               std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    Doom judge(const std::string& head)
    {
        const std::string line = head.substr(0, head.find('\r'));
        const bool saves = line.starts_with("GET ") && line.find("/images/") != std::string::npos &&
                           line.find("/get ") != std::string::npos;
        if (line.starts_with("GET ") && !saves) return {};
        const std::scoped_lock lock(mutex_);
        if (before_) before_(line);
        if (!strike_ || changes_-- != 0) return {};
        doomed_ = line.substr(0, line.find('?'));
        constexpr long some = 200'000;
        const bool brings = head.find("chunked") != std::string::npos;
        if (moment_ == Moment::Asked) return {.asked = brings ? some : 0, .answered = kAll};
        return {.asked = kAll, .answered = saves ? some : 0};
    }
    void strike()
    {
        const std::scoped_lock lock(mutex_);
        if (strike_) strike_();
        strike_ = {};
        changed_.notify_all();
    }

    void relay(const std::stop_token& stop, const UniqueFd& client, long bytes)
    {
        const SocketAddress place(to_);
        const UniqueFd engine(::socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(engine.get(), place.get(), place.size()) != 0) return;
        std::vector<char> piece(1 << 16);
        Doom doom;
        bool fresh = true;
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
                if (i == 0 && std::exchange(fresh, false)) {
                    const std::string head(piece.data(), static_cast<std::size_t>(n));
                    if (const auto answer = refusal(head); !answer.empty()) {
                        (void)write_some(client.get(), answer.data(), static_cast<long>(answer.size()));
                        return;
                    }
                    doom = judge(head);
                }
                long& left = i == 0 ? doom.asked : doom.answered;
                left -= n;
                const long some = i == 0 ? n : std::min<long>(n, bytes);
                if (i == 1) bytes -= some;
                const bool over = left < 0;
                // A request goes out whole as far as it came; of an answer nothing more is heard.
                if ((!over || i == 0) && !write_some(both[1 - i].fd, piece.data(), some)) return;
                if (over) strike();
                if (over || bytes == 0) return;
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
    std::mutex mutex_; ///< of what follows
    std::condition_variable changed_;
    long changes_ = 0;
    Moment moment_ = Moment::Asked;
    std::function<void()> strike_;
    std::function<void(const std::string&)> before_;
    std::function<std::string(const std::string&)> refuse_;
    std::string doomed_; ///< the request, while it is on its way and after that
    std::jthread thread_;
};

} // namespace berth::test
