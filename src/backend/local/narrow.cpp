// A command with a policy narrower than its sandbox's: the parts of keeping::start_narrow as this backend's
// sandboxes need them.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "backend/local/environment.hpp"
#include "backend/local/sandbox.hpp"
#include "keeping/narrow.hpp"
#include "sys/caps.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

} // namespace

Status Sandbox::exec_narrower(const ExecSpec& spec, const Account& user, Starting& starting)
{
    const Identity& identity = prepared_->identity;
    if (opened_) {
        // What is mounted must be looked at again; if it is not there any more, no rule about it can hold.
        BERTH_TRY(prepared_->binds, open_sources(prepared_->spec, *prepared_->plan.state));
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
    for (const auto& rule : inner.files.rules)
        if (!rule.pattern.empty())
            return fail(Code::Unsupported,
                        "{} {}: a pattern is held for a whole sandbox, not for one command of it",
                        to_string(rule.access), rule.source);
    BERTH_TRY(auto protects, ProtectedNames::hold(site_of(inner)));
    inner.protected_paths = protects.paths();

    NarrowStart start;
    start.exec = &spec;
    start.log = &*starting.log;
    start.env = environment(inner_spec, spec, user, inner.layers);
    start.programs = candidates(spec.argv.front(), start.env);
    start.cwd = working_directory(inner_spec, spec, user, inner.layers);
    start.user = user;
    start.limits = inner_spec.policy.limits;
    start.site = site_of(inner);
    start.landlock_abi = prepared_->plan.landlock_abi;
    start.filter = filter_of(inner);
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
    if (spec.terminal) {
        BERTH_TRY(root, open_of_keeper("root", O_PATH | O_DIRECTORY));
        start.root = root.get();
    }
    if (starting.group) {
        start.tasks = group_->birth_tasks(*starting.group);
        start.birth_directory = starting.group->birth_directory();
    }
    start.locks = protects.locks();
    start.spawner = spawner_;
    BERTH_TRY(auto keeper, KeeperClient::connect(directory_.get(), "sock", 10s));
    BERTH_CHECK(start_narrow(start, keeper));
    adopted_.emplace(spec.id, Adopted{.keeper = std::move(keeper), .protects = std::move(protects)});
    return {};
}

} // namespace berth::local
