#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "backend/e2b/cloud.hpp"
#include "keeping/log_writer.hpp"
#include "protocol/e2b/process.hpp"

namespace berth::e2b_client {

/// One exec as this process sees it: a thread reads its stream and writes its log. The daemon keeps no log:
/// what comes while nobody is connected is lost to everybody, and told as a gap. When the stream breaks, the
/// thread connects again; when it cannot for long, the exec is out of reach, and its log stays open for
/// whoever comes later.
class RunningExec {
public:
    struct Wish {
        std::string instance; ///< the cloud's id
        std::string exec;
        std::string user;
        keeping::LogWriter writer;
        UniqueFd claim; ///< the right to write it, held as long as this lives
    };
    RunningExec(Cloud& cloud, Wish wish);
    RunningExec(const RunningExec&) = delete;
    RunningExec& operator=(const RunningExec&) = delete;
    /// Hangs up; the command runs on.
    ~RunningExec();

    /// Returns when the command runs, or why it does not.
    [[nodiscard]] Status start(const Session& session, const e2b::StartRequest& request,
                               const ExecSpec& spec);
    /// Goes on with what another process has started.
    void go_on();

    /// Nothing more comes: it has ended, or is out of reach.
    [[nodiscard]] bool done() const;
    /// Why it is out of reach; nothing while it is not.
    [[nodiscard]] std::optional<Error> lost() const;
    /// Waits until done, or the time is over.
    void wait_done(SteadyTime until) const;
    [[nodiscard]] const std::string& instance() const noexcept { return wish_.instance; }

private:
    enum class Next { Done, Reconnect, Lost };

    void run(std::optional<Session> session, std::string first);
    [[nodiscard]] Status take(std::string_view message);
    [[nodiscard]] Next judge(StreamEnd end, Error& why);
    [[nodiscard]] Next finish_unknown();

    Cloud& cloud_;
    Wish wish_;
    Cord cord_;
    bool reconnecting_ = false; ///< of the thread alone

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    bool begun_ = false;
    bool stopping_ = false;
    bool done_ = false;
    std::optional<connect::Failure> refused_; ///< instead of beginning
    std::optional<Error> failed_;             ///< the same, not by the daemon's word
    std::optional<Error> lost_;
    std::thread thread_;
};

} // namespace berth::e2b_client
