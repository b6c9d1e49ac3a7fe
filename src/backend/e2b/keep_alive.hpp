#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "backend/e2b/cloud.hpp"

namespace berth::e2b_client {

/// Lengthens the time of sandboxes in which commands of this process run: a long build must not look idle.
class KeepAlive {
public:
    /// `busy` tells them, whenever it is asked.
    KeepAlive(Cloud& cloud, std::function<std::set<std::string>()> busy);
    KeepAlive(const KeepAlive&) = delete;
    KeepAlive& operator=(const KeepAlive&) = delete;
    ~KeepAlive();

private:
    void run();

    Cloud& cloud_;
    std::function<std::set<std::string>()> busy_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool stopping_ = false;
    std::thread thread_;
};

} // namespace berth::e2b_client
