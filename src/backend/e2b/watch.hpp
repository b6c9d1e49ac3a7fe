#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "backend/e2b/cloud.hpp"

namespace berth::e2b_client {

/// One watch of a directory: a thread reads its stream. When the stream breaks it begins anew, and says that
/// something may have been missed.
class Watch {
public:
    Watch(Cloud& cloud, std::string instance, std::string path, std::string user);
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch();

    /// When it watches, or why it does not.
    [[nodiscard]] Status begin();
    /// What has come since; waits until something does, it fails, or the time is over.
    [[nodiscard]] Result<std::vector<FileChange>> next(SteadyTime until);

private:
    void run();
    [[nodiscard]] Status take(std::string_view message);

    Cloud& cloud_;
    const std::string instance_;
    const std::string path_;
    const std::string user_;
    Cord cord_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<FileChange> queue_;
    bool begun_ = false;
    bool stopping_ = false;
    std::optional<Error> failed_;
    std::thread thread_;
};

} // namespace berth::e2b_client
