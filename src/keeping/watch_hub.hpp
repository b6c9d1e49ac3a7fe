#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "keeping/watch.hpp"

namespace berth::keeping {

/// All watches of a process: one inotify instance, and one thread that reads it. It begins with the first
/// watch and ends with the last backend that holds it. For any thread; take() of a queue never waits for
/// the file system.
class WatchHub {
public:
    [[nodiscard]] static std::shared_ptr<WatchHub> of_process();
    WatchHub() = default;
    WatchHub(const WatchHub&) = delete;
    WatchHub& operator=(const WatchHub&) = delete;
    ~WatchHub();

    /// What is to be watched.
    struct Request {
        std::string id;
        std::string sandbox;
        std::string path;
        std::string user;
        WatchDepth depth = WatchDepth::All;
    };
    /// The watch of this id, or nothing. One of another directory is a Conflict.
    [[nodiscard]] Result<std::shared_ptr<ChangeQueue>> find(const Request& request) const;
    /// `keeper` is a pidfd, with whose process the watch ends.
    [[nodiscard]] Result<std::shared_ptr<ChangeQueue>> begin(const Request& request, sys::SandboxFiles files,
                                                             UniqueFd keeper);
    /// Already ended is success.
    void end(const std::string& id);

private:
    struct Watch {
        Request request;
        WatchedTree tree;
        std::shared_ptr<ChangeQueue> queue;
        UniqueFd keeper;
        bool over = false; ///< its queue tells why
    };

    [[nodiscard]] Status start();
    void poke() const noexcept;
    void loop();
    void see_all();
    void finish(Watch& watch, Error why);

    mutable std::mutex names_; ///< of watches_ alone; held for a moment only, and taken last
    std::mutex trees_;         ///< of the trees, the numbers and the thread
    std::map<std::string, std::shared_ptr<Watch>> watches_;
    std::unique_ptr<Numbers> numbers_;
    UniqueFd poke_; ///< an eventfd: the thread looks at the list again
    bool stop_ = false;
    std::thread thread_;
};

} // namespace berth::keeping
