#pragma once

#include <cerrno>
#include <span>
#include <string>
#include <vector>

/// The hostile program. It runs inside, tries one thing named by its first word, and prints one
/// line: `ok` when the kernel let it, the name of the error when not, or what it saw.
namespace probe {

using Words = std::vector<std::string>;

/// Prints its own line when it returns kSaid; else 0 prints `ok`, an errno prints its name.
constexpr int kSaid = -1;

struct Entry {
    const char* name;
    int (*act)(const Words& words);
};

std::span<const Entry> file_probes();
std::span<const Entry> mount_probes();
std::span<const Entry> process_probes();
std::span<const Entry> kernel_probes();
std::span<const Entry> network_probes();
std::span<const Entry> load_probes();
std::span<const Entry> pattern_probes();

/// 0 or errno of a call that answers -1 for failure.
inline int outcome(long result) { return result < 0 ? errno : 0; }

int say(const std::string& line);

} // namespace probe
