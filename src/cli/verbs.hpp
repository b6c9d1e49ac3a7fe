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
int doctor_verb(int argc, char** argv);
int policy_verb(int argc, char** argv);
int bench_verb(int argc, char** argv);
int completion_verb(int argc, char** argv);
int version_verb(int argc, char** argv);
int help_verb(int argc, char** argv);

} // namespace berth::cli
