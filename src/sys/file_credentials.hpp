#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace berth::sys {

/// Host-side ids in whose name files are touched.
struct FileCredentials {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups{};
    /// Keeps the right to read and search everything: only for a reader that itself looks at whose
    /// each file is before it opens it.
    bool reads_all = false;
    /// Keeps the rights of root over files, whoever they belong to: only below a directory of ours in which
    /// nothing is mounted. Without them, or as an ordinary user, it changes nothing.
    bool changes_all = false;
};

/// Runs `job` with these ids for file access, without any other capability, and with a umask of 0. Other
/// threads keep what they have; this one has a working directory of its own from now on. A thread that does
/// not get its rights back ends the process.
[[nodiscard]] Status act_as(const FileCredentials& wanted, const std::function<void()>& job);

/// The same for a job with a Result.
template <class F>
[[nodiscard]] std::invoke_result_t<F> result_as(const FileCredentials& wanted, const F& job)
{
    std::optional<std::invoke_result_t<F>> answer;
    if (auto acted = act_as(wanted, [&] { answer.emplace(job()); }); !acted)
        return std::unexpected(std::move(acted).error());
    return *std::move(answer);
}

} // namespace berth::sys
