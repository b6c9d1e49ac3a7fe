#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::bench {

/// An exec-server as a process of its own, ours or Codex's, and one client of it: nothing but what the
/// protocol asks for, so that the server's share is what is seen. Gone with this.
class CodexServer {
public:
    /// `argv` is the program and its words; it tells its ws:// address on one of its streams. `place` becomes
    /// its home and has its temporary files.
    [[nodiscard]] static Result<std::unique_ptr<CodexServer>> start(std::vector<std::string> argv,
                                                                    const std::string& place);
    CodexServer(const CodexServer&) = delete;
    CodexServer& operator=(const CodexServer&) = delete;
    ~CodexServer();

    /// One request and its answer; an error of the server's is one.
    [[nodiscard]] Result<json::Object> call(const std::string& method, json::Object params);
    /// Starts a process; nanoseconds until the first of its output is there. Its end is waited for
    /// afterwards.
    [[nodiscard]] Result<double> first_output(json::Object params);

private:
    CodexServer() = default;
    [[nodiscard]] Status greet(std::uint16_t port);
    [[nodiscard]] Status send(const json::Object& message);
    [[nodiscard]] Result<json::Object> receive();
    [[nodiscard]] Result<std::string> take(std::size_t count);

    pid_t pid_ = -1;
    UniqueFd says_; ///< what the program prints; kept open for as long as it runs
    UniqueFd socket_;
    std::string buffer_;
    std::int64_t number_ = 0;
};

} // namespace berth::bench
