#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "server/codex/place.hpp"
#include "sys/inotify.hpp"

namespace berth::codex {

/// On this host. A watch follows every directory above each path that exists, for any of them may be
/// replaced.
class Watches final : public Watcher, public std::enable_shared_from_this<Watches> {
public:
    /// Whether all of these may be looked for: what a client is not shown, a watch must not tell it.
    using Shown = std::function<Task<bool>(const WatchParams&)>;

    [[nodiscard]] static Result<std::shared_ptr<Watches>> open(boost::asio::any_io_executor loop, Fire fire,
                                                               Shown shown);

    Task<bool> add(WatchParams params) override;
    void close() noexcept override;

private:
    struct Watch {
        std::int64_t id = 0;
        std::map<int, std::vector<std::string>> names; ///< of a directory: which of its names; empty: any
        std::size_t steps = 0;                         ///< upwards, so far
    };
    Watches(boost::asio::any_io_executor loop, sys::Inotify inotify, Fire fire, Shown shown);
    [[nodiscard]] bool free(std::int64_t id) const;
    /// False: there is no way to follow it.
    bool follow(const std::string& path, bool missing, Watch& watch) const;
    bool follow_above(std::string path, Watch& watch) const;
    Task<void> run();
    void drop(const Watch& gone) const;

    sys::Inotify inotify_;
    boost::asio::posix::stream_descriptor ready_;
    Fire fire_;
    Shown shown_;
    std::vector<Watch> watches_;
};

} // namespace berth::codex
