#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/backend.hpp"
#include "keeping/exec_log.hpp"

namespace berth::keeping {

// The logs of an instance's execs, below `exec` in its directory: there in every state of it, and
// readable without a keeper.

/// NotFound when there is no such exec; Invalid when that is no id of one.
[[nodiscard]] Result<ExecLog> open_log(int directory, const std::string& exec,
                                       ExecLog::Access access = ExecLog::Access::Read);

/// Looks for the exit in the index alone, so that a long log is not read for one number. `at` is where
/// to begin, and where to go on the next time.
[[nodiscard]] Result<std::optional<ExitStatus>> find_exit(const ExecLog& log, std::uint64_t& at);

/// How the keeper of a log is.
enum class LogKeeper { Lives, Gone };

/// Every exec that has a log, oldest first. Without a keeper none of them runs.
[[nodiscard]] Result<std::vector<ExecInfo>> list_logs(int directory, LogKeeper keeper);

/// After the keeper's death, or of an exec it never knew: the log gets the end it lacks.
[[nodiscard]] Status finish_log(int directory, const std::string& exec);

/// How many logs of commands that are over a sandbox keeps.
inline constexpr std::size_t kKeptLogs = 1000;
/// The oldest ones beyond `keep` go, some at a time; never one that may still be written to. Whoever reads
/// one reads on.
[[nodiscard]] Status trim_logs(int directory, std::size_t keep = kKeptLogs);
/// Called with every end: looks only now and then, as it costs a look at all of them.
[[nodiscard]] Status trim_logs_after(int directory, const std::string& exec);

/// What the names of logs begin with that were made ahead.
inline constexpr std::string_view kSpare = ".spare-";
/// Removes those; whoever made them makes others.
[[nodiscard]] Status remove_spares(int directory);

/// After the keeper's death, with the instance locked: each log gets the end it lacks, and logs made
/// ahead are removed.
[[nodiscard]] Status settle_logs(const std::string& native, int directory);

} // namespace berth::keeping
