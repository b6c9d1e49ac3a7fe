#pragma once

#include <sys/stat.h>

#include <string>

#include "base/unique_fd.hpp"
#include "server/codex/host_files.hpp"
#include "sys/file_credentials.hpp"

/// How a path becomes a descriptor, and what may be done with it.
namespace berth::codex::files {

/// An object that is there.
struct Found {
    UniqueFd object;  ///< O_PATH
    std::string real; ///< where it lies
    struct stat st{};
};

/// A name in a directory that is there.
struct Spot {
    Found directory;
    std::string name;
    std::string real; ///< of the name, followed or not
};

/// What for: whoever only looks at what it is need not be able to read it.
enum class Need { Read, Sight };

[[nodiscard]] Result<Found> find(const Bound& bound, const std::string& path, Follow follow,
                                 Need need = Need::Read);
/// The directory is followed where `follow` says so, the name never.
[[nodiscard]] Result<Spot> find_spot(const Bound& bound, const std::string& path, Follow follow);

/// A refusal as the kernel words it.
[[nodiscard]] std::unexpected<Error> refused(int number, const std::string& path);

[[nodiscard]] Status may_read(const Bound& bound, const std::string& spelled, const std::string& real);
[[nodiscard]] Status may_write(const Bound& bound, const std::string& spelled, const std::string& real);
/// To see that it is there: also a directory on the way to something that may be read.
[[nodiscard]] Status may_see(const Bound& bound, const std::string& spelled, const std::string& real);

/// `work` with the rights that a process has at `real`: this thread may act for the owner of another mount.
template <class F>
[[nodiscard]] std::invoke_result_t<F> with_rights_at(const Bound& bound, const std::string& real,
                                                     const F& work)
{
    if (!bound.acting) return work();
    const auto ids = bound.rights_at(real);
    if (ids == *bound.acting) return work();
    return sys::result_as({.uid = ids.first, .gid = ids.second}, work);
}

/// Opens what a descriptor refers to, with the rights of this thread.
[[nodiscard]] Result<UniqueFd> reopen(int object, int flags, const std::string& path);

} // namespace berth::codex::files
