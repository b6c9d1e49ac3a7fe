#include "conformance/check.hpp"

namespace berth::conformance {

const std::vector<Group>& groups()
{
    static const std::vector<Group> all{
        {"identity", "found again by anybody, never made twice", identity_checks},
        {"destroy", "the one operation that deletes", destroy_checks},
        {"stop", "processes end, files stay", stop_checks},
        {"pause", "frozen with memory", pause_checks},
        {"arguments", "what a command is started with", argument_checks},
        {"output", "what a command prints", output_checks},
        {"endings", "how a command ends", ending_checks},
        {"environment", "where, as whom and with which variables a command runs", environment_checks},
        {"input", "what a command reads", input_checks},
        {"log", "events that are read from any place by anybody", log_checks},
        {"pty", "commands on a terminal", pty_checks},
        {"files", "files touched from outside", file_checks},
        {"paths", "no path leads out", path_checks},
        {"mounts", "directories of the host, and volumes", mount_checks},
        {"archives", "whole trees in and out", archive_checks},
        {"hostile-archives", "refused before anything is written", hostile_archive_checks},
        {"snapshots", "files kept, restored and refused", snapshot_checks},
        {"forks", "copies without identity, secrets or connections", fork_checks},
        {"ports", "a server inside, dialled from outside", port_checks},
        {"watch", "changes of files", watch_checks},
        {"network", "off means off", network_checks},
        {"policy", "held or refused", policy_checks},
        {"resume", "the tiers of the lifecycle", resume_checks},
        {"keeping", "what time does to sandboxes", keeping_checks},
    };
    return all;
}

} // namespace berth::conformance
