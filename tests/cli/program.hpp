#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"

namespace berth::test {

using Words = std::vector<std::string>;

/// How a child of the test ended and what it said.
struct Ended {
    int code = -1;   ///< exit code; -1 when a signal ended it
    int signal = 0;  ///< that signal
    std::string out; ///< bytes of stdout that came through a pipe
    std::string err;
    std::chrono::milliseconds took{};
};

/// One start of the real program. stdin is /dev/null unless something else is asked for.
struct Start {
    Words args;
    std::string program{}; ///< the program under test when empty
    std::optional<std::string> input{};
    int in = -1;  ///< handed over instead of a pipe; -2: closed
    int out = -1; ///< as `in`
    int err = -1;
    std::map<std::string, std::string> env{};
    std::function<void()> in_child{}; ///< between fork and exec: limits, namespaces, credentials
};

/// A running program of the test; destroyed, it is killed and reaped.
class Started {
public:
    explicit Started(const Start& start);
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    ~Started();

    [[nodiscard]] pid_t pid() const { return pid_; }
    void signal(int signo) const;
    /// Writes to its stdin; false when nobody reads there any more.
    [[nodiscard]] bool write(std::string_view bytes) const;
    void close_input() { in_.reset(); }
    void close_output() { out_.reset(); }
    /// Reads its stdout until it has said `text`; false when it ended or took too long.
    [[nodiscard]] bool wait_for(std::string_view text);
    /// What came of its stdout so far.
    [[nodiscard]] const std::string& said() const { return ended_.out; }
    /// Reads both streams to their ends and waits. A program that does not end is killed and the test fails.
    Ended finish();

private:
    void read_streams(std::chrono::steady_clock::time_point until, const std::function<bool()>& enough);

    pid_t pid_ = -1;
    UniqueFd in_, out_, err_;
    std::string input_;
    Ended ended_;
    std::chrono::steady_clock::time_point start_;
    bool reaped_ = false;
};

Ended run(const Start& start);
/// `berth ARGS…`
Ended berth(Words args);
/// `berth run OPTIONS… -- sh -c SCRIPT`
Ended shell(Words options, const std::string& script);

/// The program under test and its twin with test hooks (BERTH_PROGRAM_DIR moves both).
[[nodiscard]] std::string program();
[[nodiscard]] std::string hooks_program();

[[nodiscard]] bool is_root();
/// Polls until `true` or ten seconds have passed.
[[nodiscard]] bool eventually(const std::function<bool()>& holds);
[[nodiscard]] std::string trimmed(std::string text);

/// Every pid of a program started by this test process; control groups are named after them.
[[nodiscard]] const std::vector<pid_t>& started_pids();

} // namespace berth::test
