#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backend/docker/engine.hpp"
#include "backend/docker/exec_groups.hpp"
#include "backend/docker/instance.hpp"
#include "keeping/account.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/exec_time.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/kept_backend.hpp"
#include "keeping/pause.hpp"
#include "keeping/protect.hpp"
#include "sys/sandbox_files.hpp"

namespace berth::docker {

/// One program's hold on a running container of ours and its keeper; for one thread.
class Sandbox {
public:
    /// NotFound: there is none, or its container is gone; Conflict: it is stopped or paused by the engine;
    /// Unavailable: it runs, and its keeper does not answer.
    [[nodiscard]] static Result<Sandbox> open(const InstanceDirs& dirs, const Engine& engine,
                                              const std::string& native);

    [[nodiscard]] bool alive() const;
    [[nodiscard]] const std::string& id() const noexcept { return instance_.spec.id; }
    [[nodiscard]] const SandboxSpec& spec() const noexcept { return instance_.spec; }
    [[nodiscard]] const Instance& instance() const noexcept { return instance_; }
    /// A pidfd. Borrowed.
    [[nodiscard]] int keeper_descriptor() const noexcept { return pidfd_.get(); }
    [[nodiscard]] keeping::KeeperClient& keeper() noexcept { return keeper_; }
    [[nodiscard]] ExecGroups* groups() noexcept { return groups_ ? &*groups_ : nullptr; }

    [[nodiscard]] Status exec(const ExecSpec& wanted);
    [[nodiscard]] Result<keeping::ExecFollower> follow(const std::string& exec, std::uint64_t from) const;
    [[nodiscard]] Status signal(const std::string& exec, int signo);
    [[nodiscard]] Status kill(const std::string& exec);
    /// It has ended and was told.
    void forget(const std::string& exec);
    /// The limits that struck since the exec began.
    [[nodiscard]] std::vector<std::string> struck_by(const std::string& exec) const;

    /// Who `user` is inside; empty: the sandbox's own.
    [[nodiscard]] Result<keeping::Account> account(const std::string& user) const;
    /// Where the commands of this user start, unless they say otherwise.
    [[nodiscard]] std::string workdir(const keeping::Account& user) const;
    /// Where this command starts: as it says, else there; but at the root where that is a home that does not
    /// exist.
    [[nodiscard]] Result<std::string> start_place(const ExecSpec& spec, const keeping::Account& user) const;
    /// The directory that holds its work, if this is its own user.
    [[nodiscard]] std::string workspace(const keeping::Account& user) const;
    [[nodiscard]] Result<sys::SandboxFiles> files(const std::string& user) const;
    [[nodiscard]] Result<keeping::Trees> trees(const std::string& user) const;

    [[nodiscard]] Status pause();
    [[nodiscard]] Status resume();
    [[nodiscard]] Result<keeping::Paused> paused() const;

private:
    Sandbox(std::string native, UniqueFd state, UniqueFd directory, Instance instance,
            keeping::KeeperClient keeper, UniqueFd pidfd)
        : native_(std::move(native)), state_(std::move(state)), directory_(std::move(directory)),
          instance_(std::move(instance)), keeper_(std::move(keeper)), pidfd_(std::move(pidfd)),
          groups_(ExecGroups::of(instance_.pid))
    {
    }
    [[nodiscard]] Result<UniqueFd> root() const;
    [[nodiscard]] Status check_policy(const ExecSpec& spec, const keeping::Account& user) const;
    [[nodiscard]] Status start(const ExecSpec& spec, const keeping::Account& user);
    [[nodiscard]] Status start_in_walls(const ExecSpec& spec, const keeping::Account& user,
                                        const keeping::KeeperExec& what, const keeping::ExecLog& log,
                                        const keeping::ExecTime* time);

    std::string native_;
    UniqueFd state_; ///< of all instances
    UniqueFd directory_;
    Instance instance_;
    keeping::KeeperClient keeper_;
    UniqueFd pidfd_;
    std::optional<ExecGroups> groups_;
    std::map<std::string, keeping::ProtectedNames> protects_; ///< by exec
};

/// The keeper in a directory, as the record knows it; where the record is behind, the engine is asked and the
/// record brought up to date.
struct FoundKeeper {
    Instance instance;
    keeping::KeeperClient client;
    UniqueFd pidfd;
};
[[nodiscard]] Result<FoundKeeper> find_keeper(int directory, const Engine& engine, const std::string& native);

} // namespace berth::docker
