#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "place.hpp"

namespace security {

using Words = std::vector<std::string>;

/// How `berth run` ended.
struct Outcome {
    int code = -1; ///< as a shell tells it
    std::string out;
    std::string err;
    long peak_kib = 0; ///< the largest memory of berth itself
};

/// What a test wants of the process that berth is started in.
struct Around {
    std::string verb = "run"; ///< of "exec" the last option is the sandbox
    std::string program;      ///< empty: the program under test
    std::map<std::string, std::string> env;
    std::vector<std::pair<int, int>> descriptors; ///< {ours, the number berth finds it under}
    std::string input;
    std::function<void(std::string_view)> output; ///< takes stdout instead of `Outcome::out`
};

/// `berth run OPTIONS -- COMMAND`, or what `around` says, to its end. Without a command there is no "--".
[[nodiscard]] Outcome run(const Words& options, const Words& command, const Around& around = {});

/// A shell script inside, with the hostile program at /probe.
[[nodiscard]] Outcome inside(const std::string& script, const Words& options = {}, const Around& around = {});

/// What it printed; where it failed also how and why, so that a comparison shows it.
[[nodiscard]] std::string answer(const std::string& script, const Words& options = {},
                                 const Around& around = {});

/// Options for the mightiest user to be had inside: root, where berth runs as root.
[[nodiscard]] Words mightiest();

/// `berth run` that goes on while the test looks at it from outside.
class Running {
public:
    Running(const Words& options, const std::string& script, const Around& around = {});
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running();

    /// The next line of its output; empty at its end.
    [[nodiscard]] std::string line();
    [[nodiscard]] pid_t pid() const { return pid_; }
    /// The sandbox's first process, as the host numbers it; 0 when there is none.
    [[nodiscard]] pid_t first_process() const;
    void signal(int signo) const;
    /// Its exit code as a shell tells it; closes its input.
    int wait();

private:
    pid_t pid_ = -1;
    int in_ = -1;
    int out_ = -1;
    std::string rest_;
};

/// The host's processes whose argv[0] is this.
[[nodiscard]] std::vector<pid_t> processes_named(const std::string& name);

} // namespace security
