#pragma once

#include <memory>
#include <string_view>

#include "backend/docker/engine_place.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::docker {

/// One connection to an engine: plain or TLS, every wait with a deadline. For threads that may block.
class Wire {
public:
    [[nodiscard]] static Result<Wire> connect(const EnginePlace& place, SteadyTime until);
    Wire(Wire&&) noexcept;
    Wire& operator=(Wire&&) noexcept;
    ~Wire();

    [[nodiscard]] Status write(std::string_view bytes, SteadyTime until);
    /// What there is, at most `size`; 0 at the end.
    [[nodiscard]] Result<std::size_t> read(char* to, std::size_t size, SteadyTime until);
    /// Bytes come, or the other end has closed; does not wait.
    [[nodiscard]] bool readable() const;

private:
    struct Tls;
    Wire(UniqueFd socket, std::unique_ptr<Tls> tls);
    Status begin_tls(const EnginePlace& place, SteadyTime until);

    UniqueFd socket_;
    std::unique_ptr<Tls> tls_;
};

} // namespace berth::docker
