#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "server/codex/place.hpp"
#include "sys/inotify.hpp"

namespace berth::codex {

/// On this host. A watch follows the nearest directory above each path that exists.
class Watches final : public Watcher, public std::enable_shared_from_this<Watches> {
public:
    [[nodiscard]] static Result<std::shared_ptr<Watches>> open(boost::asio::any_io_executor loop, Fire fire);

    Task<bool> add(WatchParams params) override;
    void close() noexcept override;

private:
    struct Watch {
        std::int64_t id = 0;
        std::map<int, std::vector<std::string>> names; ///< of a directory: which of its names; empty: any
    };
    Watches(boost::asio::any_io_executor loop, sys::Inotify inotify, Fire fire);
    Task<void> run();
    void drop(const Watch& gone) const;

    sys::Inotify inotify_;
    boost::asio::posix::stream_descriptor ready_;
    Fire fire_;
    std::vector<Watch> watches_;
};

} // namespace berth::codex
