#pragma once

#include <string_view>
#include <vector>

namespace berth::cli {

/// One word after `berth`. `argv` starts with the verb itself.
struct Verb {
    std::string_view name;
    std::string_view summary;
    int (*run)(int argc, char** argv);
    bool hidden = false;
};

[[nodiscard]] const std::vector<Verb>& verbs();

int run_verb(int argc, char** argv);
int create_verb(int argc, char** argv);
int start_verb(int argc, char** argv);
int stop_verb(int argc, char** argv);
int pause_verb(int argc, char** argv);
int resume_verb(int argc, char** argv);
int rm_verb(int argc, char** argv);
int ls_verb(int argc, char** argv);
int inspect_verb(int argc, char** argv);
int events_verb(int argc, char** argv);
int gc_verb(int argc, char** argv);
int snapshot_verb(int argc, char** argv);
int snapshots_verb(int argc, char** argv);
int restore_verb(int argc, char** argv);
int fork_verb(int argc, char** argv);
int move_verb(int argc, char** argv);
int attach_verb(int argc, char** argv);
int detach_verb(int argc, char** argv);
int volume_verb(int argc, char** argv);
int template_verb(int argc, char** argv);
int exec_verb(int argc, char** argv);
int mind_verb(int argc, char** argv);
int shell_verb(int argc, char** argv);
int logs_verb(int argc, char** argv);
int input_verb(int argc, char** argv);
int kill_verb(int argc, char** argv);
int cp_verb(int argc, char** argv);
int port_verb(int argc, char** argv);
int serve_verb(int argc, char** argv);
int exec_server_verb(int argc, char** argv);
int key_verb(int argc, char** argv);
int doctor_verb(int argc, char** argv);
int policy_verb(int argc, char** argv);
int bench_verb(int argc, char** argv);
int conformance_verb(int argc, char** argv);
int completion_verb(int argc, char** argv);
int version_verb(int argc, char** argv);
int help_verb(int argc, char** argv);

} // namespace berth::cli
