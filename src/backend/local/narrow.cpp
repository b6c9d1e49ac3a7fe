// A command with a policy narrower than its sandbox's: the parts of keeping::start_narrow as this backend's
// sandboxes need them.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "backend/local/environment.hpp"
#include "backend/local/holdings.hpp"
#include "backend/local/prepare.hpp"
#include "backend/local/sandbox.hpp"
#include "base/hooks.hpp"
#include "core/exec_programs.hpp"
#include "keeping/narrow.hpp"
#include "sys/caps.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

std::vector<std::string> in_directory(const std::string& cwd, std::vector<std::string> paths)
{
    for (auto& path : paths)
        if (!path.starts_with('/')) path = cwd + "/" + path;
    return paths;
}

/// The supervisor of the command's own patterns; nothing where it has none.
Result<std::optional<Supervision>> supervise(const Plan& plan, const ExecSpec& spec, const Account& user,
                                             const std::vector<std::string>& programs)
{
    if (hooks::wall_off("supervisor")) return std::optional<Supervision>{};
    BERTH_CHECK(check_patterns(plan.files));
    BERTH_TRY(auto made, Supervision::make(plan.files, programs));
    if (!made) return made;
    if (const std::string lack = lacks_for_patterns(&plan.spec->policy); !lack.empty())
        return fail(Code::Unsupported, "a policy with deny patterns for one command: {}", lack);
    if (program_of(spec.id) >= 0)
        return fail(Code::Unsupported,
                    "a program that is handed in cannot run under deny patterns of its own");
    if (user.uid != 0 || plan.identity->mode == IdMode::Own) BERTH_CHECK(made->only(user));
    return made;
}

} // namespace

Status Sandbox::exec_narrower(const ExecSpec& spec, const Account& user, Starting& starting)
{
    const Identity& identity = prepared_->identity;
    if (opened_) {
        // What is mounted must be looked at again; if it is not there any more, no rule about it can hold.
        BERTH_TRY(prepared_->binds, open_sources(prepared_->spec, *prepared_->plan.state, &prepared_->pins));
        prepared_->plan.binds = prepared_->binds;
        opened_ = false;
    }
    SandboxSpec inner_spec = prepared_->spec;
    inner_spec.policy = *spec.policy;
    BERTH_CHECK(narrow_limits(inner_spec.policy, prepared_->spec.policy.limits, user));
    Plan inner;
    inner.spec = &inner_spec;
    inner.state = prepared_->plan.state;
    inner.identity = &identity;
    inner.layers = prepared_->plan.layers;
    inner.binds = prepared_->binds;
    inner.net = prepared_->plan.net;
    BERTH_TRY(inner.files, policy::bind_files(inner_spec.policy, roots_of(inner_spec, user)));
    const auto env = environment(inner_spec, spec, user, inner.layers);
    const auto cwd = working_directory(inner_spec, spec, user, inner.layers);
    const auto programs = candidates(spec.argv.front(), env);
    BERTH_TRY(auto supervision, supervise(inner, spec, user, in_directory(cwd, programs)));
    if (supervision) inner.supervision = &*supervision;
    BERTH_TRY(auto protects, ProtectedNames::hold(site_of(inner)));
    inner.protected_paths = protects.paths();

    NarrowStart start;
    start.exec = &spec;
    start.log = &*starting.log;
    start.env = env;
    start.programs = programs;
    start.cwd = cwd;
    start.user = user;
    start.limits = inner_spec.policy.limits;
    start.site = site_of(inner);
    start.landlock_abi = prepared_->plan.landlock_abi;
    start.filter = filter_of(inner);
    start.supervision = inner.supervision;
    start.caps = identity.mode == IdMode::Own ? 0 : sys::kKeptCaps;
    start.keeper_pidfd = pidfd_.get();
    start.namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    // The host's own network is where we are already, and nothing an ordinary user may enter.
    if (inner.net != NetMode::Host) start.namespaces |= CLONE_NEWNET;
    if (identity.mode == IdMode::Own) start.namespaces |= CLONE_NEWUSER;
    start.own_network = inner.net == NetMode::Host && inner_spec.policy.network == policy::Network::Off;
    start.changes_ids = identity.mode != IdMode::Own;
    UniqueFd users;
    if (identity.mode == IdMode::Mapped) {
        BERTH_TRY(users, open_of_keeper("ns/user", O_RDONLY));
        start.users = users.get();
    }
    UniqueFd root;
    if (spec.terminal || !inner.files.protected_names.empty()) {
        BERTH_TRY(root, open_of_keeper("root", O_PATH | O_DIRECTORY));
        start.root = root.get();
        if (identity.mode != IdMode::Own) start.terminal_owner = identity.outside(user.uid);
    }
    if (starting.group) {
        start.tasks = group_->birth_tasks(*starting.group);
        start.birth_directory = starting.group->birth_directory();
    }
    start.locks = protects.locks();
    start.spawner = spawner_;
    std::optional<keeping::ExecTime> time;
    if (spec.timeout) start.time = &time.emplace(time_of(spec, starting));
    BERTH_TRY(auto keeper, KeeperClient::connect(directory_.get(), "sock", 10s));
    BERTH_CHECK(start_narrow(start, keeper));
    if (supervision) supervision->let_go();
    adopted_.emplace(spec.id, Adopted{.keeper = std::move(keeper),
                                      .protects = std::move(protects),
                                      .supervision = std::move(supervision)});
    return {};
}

} // namespace berth::local
