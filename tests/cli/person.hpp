#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/program.hpp"

namespace berth::test {

/// A terminal, and berth running on it as a shell would start it: leader of the foreground group.
class Person {
public:
    explicit Person(Words args, winsize size = {.ws_row = 33, .ws_col = 111, .ws_xpixel = 0, .ws_ypixel = 0})
    {
        int master = -1;
        int slave = -1;
        if (::openpty(&master, &slave, nullptr, nullptr, &size) != 0) throw std::runtime_error("openpty");
        master_.reset(master);
        slave_.reset(slave);
        ::fcntl(master, F_SETFD, FD_CLOEXEC);
        ::fcntl(slave, F_SETFD, FD_CLOEXEC);
        before_ = modes();
        berth_ = std::make_unique<Started>(Start{.args = std::move(args),
                                                 .in = slave,
                                                 .out = slave,
                                                 .err = slave,
                                                 .env = {{"TERM", "dumb"}},
                                                 .in_child = [slave] {
                                                     ::setsid();
                                                     ::ioctl(slave, TIOCSCTTY, 0);
                                                 }});
    }

    void type(std::string_view keys) const
    {
        ASSERT_EQ(::write(master_.get(), keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
    }

    /// Reads the screen until it shows `text` after what was asked for before.
    [[nodiscard]] bool see(std::string_view text)
    {
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (std::chrono::steady_clock::now() < until) {
            if (const auto at = screen_.find(text, seen_); at != std::string::npos) {
                seen_ = at + text.size();
                return true;
            }
            pollfd ready{.fd = master_.get(), .events = POLLIN, .revents = 0};
            if (::poll(&ready, 1, 100) <= 0) continue;
            std::array<char, 4096> buffer{};
            const ssize_t n = ::read(master_.get(), buffer.data(), buffer.size());
            if (n > 0) screen_.append(buffer.data(), static_cast<std::size_t>(n));
        }
        ADD_FAILURE() << "not seen: " << text << "\nscreen: " << screen_;
        return false;
    }

    void resize(unsigned short rows, unsigned short columns) const
    {
        const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
        ASSERT_EQ(::ioctl(master_.get(), TIOCSWINSZ, &size), 0);
    }

    [[nodiscard]] termios modes() const
    {
        termios t{};
        EXPECT_EQ(::tcgetattr(slave_.get(), &t), 0);
        return t;
    }
    [[nodiscard]] bool modes_are_as_before() const
    {
        const termios now = modes();
        return now.c_iflag == before_.c_iflag && now.c_oflag == before_.c_oflag &&
               now.c_lflag == before_.c_lflag && now.c_cflag == before_.c_cflag;
    }
    [[nodiscard]] bool raw() const { return (modes().c_lflag & (ICANON | ECHO | ISIG)) == 0; }

    [[nodiscard]] Started& berth() { return *berth_; }
    [[nodiscard]] const std::string& screen() const { return screen_; }

private:
    UniqueFd master_, slave_;
    termios before_{};
    std::unique_ptr<Started> berth_;
    std::string screen_;
    std::size_t seen_ = 0;
};

} // namespace berth::test
