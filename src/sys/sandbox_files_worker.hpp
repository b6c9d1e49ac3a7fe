#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace berth::sys {

/// Host-side ids in whose name files are touched.
struct FileCredentials {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups{};
    /// Keeps the right to read and search everything: only for a reader that itself looks at whose
    /// each file is before it opens it.
    bool reads_all = false;
    /// Keeps the rights of root over files, whoever they belong to: only below a directory of ours in which
    /// nothing is mounted. Without them, or as an ordinary user, it changes nothing.
    bool changes_all = false;
};

/// A thread that holds these ids for file access, no capability at all, and a umask of its own (0).
/// Linux keeps credentials per thread; the callers' stay as they are. Calls run one at a time.
class FileWorker {
public:
    [[nodiscard]] static Result<std::unique_ptr<FileWorker>> start(FileCredentials credentials);
    FileWorker(const FileWorker&) = delete;
    FileWorker& operator=(const FileWorker&) = delete;
    ~FileWorker();

    /// Runs `job` on the thread and waits for its answer.
    template <class F> [[nodiscard]] std::invoke_result_t<F> run(F&& job)
    {
        std::optional<std::invoke_result_t<F>> answer;
        perform([&] { answer.emplace(job()); });
        return *std::move(answer);
    }

private:
    FileWorker() = default;
    void perform(const std::function<void()>& job);
    void loop(const FileCredentials& credentials);

    std::mutex callers_; ///< held for a whole call
    std::mutex mutex_;   ///< guards what follows
    std::condition_variable changed_;
    const std::function<void()>* job_ = nullptr;
    bool stop_ = false;
    std::optional<Status> ready_;
    std::thread thread_;
};

} // namespace berth::sys
