#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/blocking_pool.hpp"
#include "base/unique_fd.hpp"
#include "lifecycle/lifecycle.hpp"

namespace berth::codex {

/// What a server has going in sandboxes: its commands, the sandboxes of its sessions, and the directories
/// that stand for names which must not be made. Written down before it begins, in a file that its owner has
/// locked, so that whoever comes after kill -9 ends it.
class Traces {
public:
    /// Below the state directory; what dead servers left is still there.
    [[nodiscard]] static Result<std::shared_ptr<Traces>> open(const std::string& data);
    ~Traces();
    Traces(const Traces&) = delete;
    Traces& operator=(const Traces&) = delete;

    /// Ends and removes what servers left that are gone.
    Task<void> sweep(Lifecycle& lifecycle, BlockingPool& pool);

    [[nodiscard]] Status begin_exec(const std::string& sandbox, const std::string& exec);
    void end_exec(const std::string& exec);
    /// A key that only this server will ever have made, for the sandbox of a session.
    [[nodiscard]] Result<std::string> begin_sandbox();
    void end_sandbox(const std::string& key);
    /// Somebody relies on the name; whoever of this machine's servers does, holds the sandbox's lock.
    /// One that is just being removed is waited for.
    Task<Status> hold(std::string sandbox, std::vector<std::string> names);
    /// What stands there is such a directory of ours, not the sandbox's.
    [[nodiscard]] bool is_place(const std::string& sandbox, const std::string& name) const;
    /// Nobody does any more: names that nobody relies on, to be removed by the caller.
    [[nodiscard]] std::vector<std::string> release(const std::string& sandbox,
                                                   const std::vector<std::string>& names);
    /// Removes such a directory if it is still empty, and nobody relies on it again.
    Task<void> remove_place(Backend& backend, SandboxHandle sandbox, std::string name);

private:
    struct Held {
        UniqueFd lock;
        std::map<std::string, int> names; ///< how many rely on each
    };
    Traces(std::string directory, std::string name, UniqueFd file)
        : directory_(std::move(directory)), name_(std::move(name)), file_(std::move(file))
    {
    }
    [[nodiscard]] Status add(const std::string& line);
    void remove(const std::string& line);

    std::string directory_;
    std::string name_;
    UniqueFd file_;
    std::multiset<std::string> lines_; ///< what the file must say
    std::map<std::string, Held> held_;
    std::set<std::string> removing_; ///< lines of places
    int sandboxes_ = 0;
};

} // namespace berth::codex
