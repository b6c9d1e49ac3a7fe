#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "http_client/place.hpp"

namespace berth::http_client {

/// One connection to a server: plain or TLS, every wait with a deadline. For threads that may block.
class Wire {
public:
    [[nodiscard]] static Result<Wire> connect(const Place& place, SteadyTime until);
    Wire(Wire&&) noexcept;
    Wire& operator=(Wire&&) noexcept;
    ~Wire();

    [[nodiscard]] Status write(std::string_view bytes, SteadyTime until);
    /// What there is, at most `size`; 0 at the end.
    [[nodiscard]] Result<std::size_t> read(char* to, std::size_t size, SteadyTime until);
    /// Bytes come, or the other end has closed; does not wait.
    [[nodiscard]] bool readable() const;
    /// The bytes it carries as a socket, for good. Those of TLS pass through a thread that ends with it.
    [[nodiscard]] static Result<UniqueFd> into_socket(Wire wire);
    /// Every wait on it ends, now and later. For any thread, while the Wire lives.
    void hang_up() const noexcept;

private:
    struct Tls;
    Wire(UniqueFd socket, std::string who);
    Status begin_tls(const Place& place, SteadyTime until);
    void pump(int end);

    UniqueFd socket_;
    std::unique_ptr<Tls> tls_;
    std::string who_; ///< for messages
};

} // namespace berth::http_client
