#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::image {

/// Told what is going on when something takes a while; may be empty.
using Progress = std::function<void(std::string_view)>;

/// Whose ids the files of a template carry on disk.
enum class Ids {
    Sandbox, ///< the sandbox's own (0, 1000, …): the maker may give files away
    Maker,   ///< the maker's: an ordinary user can make nothing else
};

/// `Sandbox` when this process may give a file below `dir` to others, found by trying.
[[nodiscard]] Result<Ids> ids_possible_in(int dir);

/// Held while something of one kind is being made. Freed by the kernel if the maker dies.
struct CacheLock {
    std::string kind;
    UniqueFd file;
};

/// A directory of things that are slow to make and never change once made.
///
/// `<name>/ready` is written last, inside `<kind>.tmp`, which is then renamed: what has its final
/// name is whole. Makers of one kind take turns by a lock, so a `<kind>.tmp` found by the
/// holder of the lock is what a killed maker left, and is removed.
class Cache {
public:
    /// Fills an empty directory and answers with the text of `ready`.
    using Fill = std::function<Result<std::string>(int dir)>;

    /// Makes the directory if it is missing. One that belongs to somebody else is refused: whoever
    /// can write here decides what a sandbox finds in its root.
    [[nodiscard]] static Result<Cache> open(const std::string& path);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] int dir() const noexcept { return dir_.get(); }

    /// The text of `<name>/ready`, or nothing when it is not made.
    [[nodiscard]] Result<std::optional<std::string>> find(const std::string& name) const;

    /// The same, and whoever collects what nobody uses (cache_collect.hpp) leaves it alone for a day.
    [[nodiscard]] Result<std::optional<std::string>> use(const std::string& name) const;

    /// Keeps it from being collected for as long as the answer lives. NotFound: it is not there.
    [[nodiscard]] Result<UniqueFd> hold(const std::string& name) const;

    /// Waits for another maker of that kind, telling `progress` when there is one.
    [[nodiscard]] Result<CacheLock> lock(const std::string& kind, const Progress& progress) const;

    /// Makes `name`; the caller has looked for it with the lock held.
    [[nodiscard]] Status make(const CacheLock& lock, const std::string& name, const Fill& fill) const;

    /// Removes what killed makers of that kind left; nothing while another one is at work. Says whether.
    [[nodiscard]] Result<bool> remove_unfinished(const std::string& kind) const;

private:
    Cache(std::string path, UniqueFd dir) : path_(std::move(path)), dir_(std::move(dir)) {}
    std::string path_;
    UniqueFd dir_;
};

} // namespace berth::image
