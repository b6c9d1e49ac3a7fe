#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/task.hpp"
#include "protocol/codex/files.hpp"
#include "sys/inotify.hpp"

namespace berth::codex {

/// Hints that a path that was missing may be there now: each watch fires once. It follows the nearest
/// directory above each path that exists.
class Watches : public std::enable_shared_from_this<Watches> {
public:
    /// `fire` is told the number of a watch that is spent.
    [[nodiscard]] static Result<std::shared_ptr<Watches>> open(boost::asio::any_io_executor loop,
                                                               std::function<void(std::int64_t)> fire);

    /// False: nothing to wait for, or no means to.
    [[nodiscard]] bool add(const WatchParams& params);
    void close() noexcept;

private:
    struct Watch {
        std::int64_t id = 0;
        std::map<int, std::vector<std::string>> names; ///< of a directory: which of its names; empty: any
    };
    Watches(boost::asio::any_io_executor loop, sys::Inotify inotify, std::function<void(std::int64_t)> fire);
    Task<void> run();
    void drop(const Watch& gone) const;

    sys::Inotify inotify_;
    boost::asio::posix::stream_descriptor ready_;
    std::function<void(std::int64_t)> fire_;
    std::vector<Watch> watches_;
};

} // namespace berth::codex
