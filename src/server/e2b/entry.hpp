#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "base/exit_status.hpp"
#include "core/record.hpp"
#include "protocol/e2b/filesystem.hpp"
#include "protocol/e2b/process.hpp"
#include "protocol/e2b/sandbox.hpp"
#include "server/e2b/samples.hpp"

namespace berth::e2b {

/// A process that a client started, or one found after a restart of the server.
struct Process {
    std::string exec;
    std::uint32_t pid = 0;
    ProcessConfig config;
    std::optional<std::string> tag;
    bool pty = false;
    bool stdin_open = false;
    std::optional<SteadyTime> deadline; ///< when it is killed
    bool overdue = false;               ///< it was
    std::optional<ExitStatus> ended;
    SteadyTime ended_at{};
    std::uint64_t write_id = 0; ///< of its input; grows
    bool writing = false;       ///< somebody's input is on its way: others wait
};

/// What clients of this protocol know of a sandbox beyond what every sandbox has. The first part is kept on
/// disk, before the sandbox is made; the rest is this process's.
struct Entry {
    std::string id; ///< "i…"
    std::string tenant;
    std::string template_id;
    std::string alias;
    std::string token;         ///< empty: not secured
    std::string traffic_token; ///< empty: public
    Ingress ingress;
    std::chrono::seconds timeout{300};
    WallTime started{};
    WallTime end{};
    bool paused = false;
    bool kept_memory = true; ///< of a paused one: frozen, not stopped
    bool auto_pause = false;
    bool auto_pause_memory = true;
    bool auto_resume = false;
    std::map<std::string, std::string> metadata;
    std::map<std::string, std::string> env;
    std::map<std::string, std::string>
        template_env; ///< what of it the template gave: no secret of a client's
    std::vector<VolumeMount> volumes;
    std::string user = "user"; ///< whom commands and files belong to where a call names nobody
    std::string workdir;       ///< of such commands; empty: the home
    bool own_accounts = false; ///< as BuildDefaults has it
    bool interpreter = false;  ///< the same
    std::string start_cmd;     ///< the same; runs wherever processes begin anew
    std::string ready_cmd;

    SandboxRecord record; ///< as it was when it was last made usable
    bool made = false;
    bool dying = false;
    WallTime retry{};  ///< ending it has failed: not before
    bool busy = false; ///< its state is being changed: others wait
    std::uint64_t turns = 0;
    std::unique_ptr<boost::asio::steady_timer> turn; ///< cancelled when streams must end
    std::map<std::uint32_t, std::shared_ptr<Process>> processes;
    bool processes_known = false;
    bool interpreter_starts = false; ///< somebody sees to it

    struct Watcher {
        std::string path;
        std::string user;
        bool recursive = false;
        bool include_entry = false;
        bool gone = false; ///< the directory is, and that was told
    };
    std::map<std::string, Watcher> watchers;

    Samples samples;

    [[nodiscard]] std::string key() const { return "e2b:" + id; }
};

/// The part on disk, and back.
[[nodiscard]] std::string render(const Entry& entry);
[[nodiscard]] Result<Entry> parse_entry(std::string_view text);

/// "i" and 20 characters.
[[nodiscard]] bool is_sandbox_id(std::string_view id) noexcept;

} // namespace berth::e2b
