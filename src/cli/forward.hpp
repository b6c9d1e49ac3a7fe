#pragma once

#include <functional>
#include <list>
#include <string>

#include <boost/asio/cancellation_signal.hpp>

#include "base/task.hpp"
#include "base/unique_fd.hpp"
#include "cli/app.hpp"

/// Connections to an address of this machine, passed on to a port of a sandbox.
namespace berth::cli {

struct ForwardWish {
    Common common;
    std::string sandbox;
    std::string port_text;
    std::uint16_t port = 0; ///< what check() made of it
    std::string listen;
    bool stdio = false;
};

void add_forward_options(CLI::App& app, ForwardWish& wish);
[[nodiscard]] Status check(ForwardWish& wish);

/// A new connection to the port.
using Dial = std::function<Task<Result<UniqueFd>>()>;
/// What ends each connection that lives. Outlives the loop, which runs until each of them has ended.
using Connections = std::list<boost::asio::cancellation_signal>;

/// Until a signal ends it; with --stdio until its one connection ends.
Task<Status> forward(Dial dial, ForwardWish wish, Connections& connections);

} // namespace berth::cli
