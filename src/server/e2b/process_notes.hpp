#pragma once

#include <map>
#include <string>

#include "server/e2b/entry.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// What this protocol knows of a running command and no other record has: its tag, whether it has a
/// terminal, when its time is over. A server that comes after this one reads it.
struct ProcessNote {
    std::optional<std::string> tag;
    bool pty = false;
    bool stdin_open = false;
    std::optional<WallTime> deadline;
};

/// Notes of a sandbox's commands, each a file. Not synced: they need to outlive this process, and not the
/// machine, with which the commands would go, too.
class ProcessNotes {
public:
    explicit ProcessNotes(gate::Ground& ground) : ground_(ground) {}

    /// Before the command is started. Blocks.
    [[nodiscard]] Status write(const std::string& sandbox, const std::string& exec,
                               const ProcessNote& note) const;
    Task<void> remove(std::string sandbox, std::string exec);
    /// By exec. One that cannot be read is left out.
    Task<std::map<std::string, ProcessNote>> read(std::string sandbox);
    /// All of a sandbox's.
    Task<void> clear(std::string sandbox);

private:
    [[nodiscard]] std::string directory(const std::string& sandbox) const;
    gate::Ground& ground_;
};

[[nodiscard]] std::string render(const ProcessNote& note);
[[nodiscard]] Result<ProcessNote> parse_process_note(std::string_view text);

} // namespace berth::e2b
