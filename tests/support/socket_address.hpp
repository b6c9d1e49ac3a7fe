#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

namespace berth::test {

/// A path of a unix socket, or an IPv4 address with a port.
class SocketAddress {
public:
    explicit SocketAddress(const std::string& text)
    {
        if (text.starts_with('/')) {
            unix_.sun_family = AF_UNIX;
            std::memcpy(&unix_.sun_path[0], text.c_str(), text.size() + 1);
            return;
        }
        const auto colon = text.find(':');
        inet_.sin_family = AF_INET;
        inet_.sin_port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(colon + 1))));
        ::inet_pton(AF_INET, text.substr(0, colon).c_str(), &inet_.sin_addr);
    }
    [[nodiscard]] int family() const { return unix_.sun_family == AF_UNIX ? AF_UNIX : AF_INET; }
    [[nodiscard]] const sockaddr* get() const
    {
        return family() == AF_UNIX ? reinterpret_cast<const sockaddr*>(&unix_)
                                   : reinterpret_cast<const sockaddr*>(&inet_);
    }
    [[nodiscard]] socklen_t size() const { return family() == AF_UNIX ? sizeof unix_ : sizeof inet_; }

private:
    sockaddr_un unix_{};
    sockaddr_in inet_{};
};

} // namespace berth::test
