#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/exec_server/link.hpp"
#include "protocol/codex/intent.hpp"
#include "scripted/command.hpp"

namespace berth::exec_server {

/// What a call is held to by the server; nothing: by nobody, since that was asked for in so many words.
using Confines = std::optional<codex::Intent>;

/// A server, its own commands and its file calls, over one connection that is made when it is needed and made
/// again when it broke. Calls block; for any thread.
class Server {
public:
    explicit Server(Config config);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    [[nodiscard]] const Config& config() const noexcept { return config_; }
    /// A member of what the server tells of itself that is a path; empty: it has none.
    [[nodiscard]] Result<std::string> told_path(std::string_view member);
    /// The same for one that is a text.
    [[nodiscard]] Result<std::string> told_text(std::string_view member);
    [[nodiscard]] Result<bool> can(std::string_view capability);

    /// A command of ours to its end. `cwd` is a directory that is there.
    [[nodiscard]] Result<scripted::CommandEnd> run(const scripted::Command& command, const Confines& confines,
                                                   const std::string& cwd);

    /// All of a regular file. Invalid: it is larger.
    [[nodiscard]] Result<std::string> read_file(const std::string& path, const Confines& confines,
                                                std::size_t limit);
    /// Creates or truncates. Only once: its source is read.
    [[nodiscard]] Status write_file(const std::string& path, const Confines& confines,
                                    const ByteSource& source);
    [[nodiscard]] Status write_text(const std::string& path, const Confines& confines,
                                    const std::string& bytes);
    [[nodiscard]] Status make_directory(const std::string& path, const Confines& confines);
    /// What is not there is success.
    [[nodiscard]] Status remove(const std::string& path, const Confines& confines);
    [[nodiscard]] Result<std::vector<std::string>> list(const std::string& path, const Confines& confines);
    [[nodiscard]] Result<bool> exists(const std::string& path, const Confines& confines);

private:
    struct Line;

    [[nodiscard]] Result<std::shared_ptr<Line>> line();
    [[nodiscard]] Result<std::shared_ptr<Line>> fresh_line();
    /// Of what may be asked twice: tried once more when the connection turns out to be gone.
    [[nodiscard]] Result<json::Value> ask(std::string_view method, const json::Object& params);

    const Config config_;
    std::mutex mutex_;
    std::shared_ptr<Line> line_;
};

/// A file call's usual members.
[[nodiscard]] json::Object path_call(const std::string& path, const Confines& confines);

} // namespace berth::exec_server
