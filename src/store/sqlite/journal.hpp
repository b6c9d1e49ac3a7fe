#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.hpp"

namespace berth::store {

/// Brings what was committed to the disk, beside whoever commits: a transaction that is written without a
/// sync outlives every process of ours, and a machine's crash from the next sync on. For any thread.
class Journal {
public:
    /// Of the store in that file.
    explicit Journal(const std::string& store) : path_(store + "-wal") {}

    /// Everything that was committed before this was called is on disk when it returns. One wait for the
    /// disk serves all who ask meanwhile.
    [[nodiscard]] Status sync();
    /// The same without waiting for it; done at the latest when this goes.
    void sync_soon();

    ~Journal();

private:
    [[nodiscard]] Status bring();
    [[nodiscard]] Status sync(std::unique_lock<std::mutex>& lock);
    void sync_behind();

    std::string path_;
    bool listed_ = false; ///< its name is on disk, too
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t asked_ = 0;
    std::uint64_t served_ = 0;
    bool busy_ = false;
    Status last_;
    bool soon_ = false; ///< somebody has asked who does not wait
    bool over_ = false;
    std::thread behind_; ///< from the first who does not
};

} // namespace berth::store
