// The execs of a container: files of the log and a group first, then the keeper, which writes the log itself.

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>

#include "backend/docker/attach.hpp"
#include "backend/docker/exec_place.hpp"
#include "backend/docker/sandbox.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "core/exec_programs.hpp"
#include "core/struck.hpp"
#include "keeper/wire_program.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/places.hpp"
#include "sys/remove_tree.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::docker {

namespace {

const TakesPrograms kTakesPrograms("docker");

using namespace std::chrono_literals;
using keeping::Turn;

constexpr auto kPatience = 10s;
constexpr const char* kStrikes =
    "strikes"; ///< in the directory of an exec: how often limits had struck before

Result<UniqueFd> open_dir_at(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

} // namespace

std::string Sandbox::workdir(const keeping::Account& user) const { return workdir_of(instance_, user); }

Result<std::string> Sandbox::start_place(const ExecSpec& spec, const keeping::Account& user) const
{
    if (!spec.cwd.empty()) return spec.cwd;
    const std::string path = workdir(user);
    if (path != user.home) return path;
    BERTH_TRY(const auto top, root());
    const auto home = sys::resolve_in(top.get(), path, O_DIRECTORY);
    return home || home.error().code != Code::NotFound ? path : "/";
}

std::string Sandbox::workspace(const keeping::Account& user) const
{
    return keeping::workspace_of(instance_.spec, instance_.defaults.workdir, user);
}

Status Sandbox::exec(const ExecSpec& wanted)
{
    ExecSpec spec = wanted;
    BERTH_CHECK(validate(spec));
    // "All of it", which a one-shot asks for, is as much as a log can have.
    spec.log_limit.count = std::min(spec.log_limit.count, keeper::kMaxLogLimit);
    if (spec.log_limit.count < keeper::kMinLogLimit)
        return fail(Code::Invalid, "log limit {}: it must be at least {}", show(spec.log_limit),
                    show(Bytes{keeper::kMinLogLimit}));
    BERTH_TRY([[maybe_unused]] const auto number, keeping::keeper_id(spec.id));
    BERTH_TRY(const auto user, account(spec.user));
    BERTH_CHECK(check_policy(spec, user));
    // Held until the keeper has it: whoever freezes or ends it in good order waits for that.
    BERTH_TRY(const auto turn, Turn::take(directory_.get(), Turn::Kind::Start));
    if (!alive()) return fail(Code::Unavailable, "the keeper of {} is gone", native_);
    BERTH_TRY(const auto state, paused());
    if (state.now) return fail(Code::Conflict, "sandbox {} is paused: berth resume {}", id(), id());
    auto started = start(spec, user);
    if (started || started.error().code == Code::Conflict) return started;
    if (groups_) groups_->forget(spec.id);
    if (auto all = open_dir_at(directory_.get(), "exec")) (void)sys::remove_tree(all->get(), spec.id);
    return started;
}

Status Sandbox::start(const ExecSpec& spec, const keeping::Account& user)
{
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    if (::mkdirat(all.get(), spec.id.c_str(), 0700) != 0)
        return fail_errno("creating the log of {}", spec.id);
    BERTH_TRY(const auto own, open_dir_at(all.get(), spec.id));
    using Log = keeping::ExecLog;
    BERTH_TRY(const auto log,
              Log::create(own.get(), spec.terminal ? Log::Streams::Terminal : Log::Streams::Separate));
    keeping::KeeperExec what;
    BERTH_TRY(what.id, keeping::keeper_id(spec.id));
    what.argv = spec.argv;
    what.env = environment_of(instance_, spec, user);
    BERTH_TRY(what.cwd, start_place(spec, user));
    what.uid = user.uid;
    what.gid = user.gid;
    what.log_limit = spec.log_limit.count;
    what.flags = keeper::kPace | keeper::kNotify;
    if (spec.input == ExecSpec::Stdin::Open) what.flags |= keeper::kStdin;
    if (spec.terminal) {
        what.flags |= keeper::kTerminal;
        what.rows = spec.terminal->rows;
        what.columns = spec.terminal->columns;
    }
    if (add_name(spec.id, what.argv)) what.flags |= keeper::kNamed;
    if (const auto& files = instance_.spec.policy.limits.open_files) what.open_files = *files;
    std::vector<UniqueFd> births;
    std::optional<keeping::ExecTime> time;
    if (spec.timeout && !groups_) time.emplace(*spec.timeout, directory_.get(), nullptr, nullptr);
    if (groups_) {
        const auto& limits = instance_.spec.policy.limits;
        if (limits.memory || limits.pids) {
            const auto before = groups_->strikes();
            BERTH_CHECK(
                replace_file_at(own.get(), kStrikes, fmt::format("{} {}", before.memory, before.processes)));
        }
        BERTH_TRY(auto group, groups_->make(spec.id));
        if (spec.timeout) time.emplace(*spec.timeout, directory_.get(), &groups_->all(), &group);
        BERTH_TRY(births, groups_->births(spec.id));
        what.group_kind = keeper::GroupKind::V1Tasks;
        for (const auto& birth : births) what.groups.push_back(birth.get());
    }
    hooks::kill_point("exec prepared");
    if (spec.policy || !instance_.spec.policy.files.empty())
        return start_in_walls(spec, user, what, log, time ? &*time : nullptr);
    if (const int program = program_of(spec.id); program >= 0) {
        what.flags |= keeper::kProgram;
        what.groups.push_back(program);
    }
    if (time) time->tell(keeper_, what.id);
    BERTH_TRY(const auto launched, keeper_.exec(what, log));
    if (launched.started()) return {};
    return std::unexpected(keeping::start_error(launched.step, launched.error, spec, what.cwd));
}

Result<keeping::ExecFollower> Sandbox::follow(const std::string& exec, std::uint64_t from) const
{
    using keeping::ExecFollower;
    BERTH_TRY(auto log, keeping::open_log(directory_.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) return ExecFollower::read(std::move(log), from);
    BERTH_TRY(const auto number, keeping::keeper_id(exec));
    BERTH_TRY(const auto in, keeper_place(directory_.get(), instance_));
    auto keeper = keeping::KeeperClient::connect(in.get(), "sock", kPatience);
    if (!keeper) return ExecFollower::read(std::move(log), from);
    auto follower = ExecFollower::follow(std::move(log), number, from, *std::move(keeper));
    if (follower || follower.error().code != Code::NotFound) return follower;
    BERTH_TRY(auto again, keeping::open_log(directory_.get(), exec));
    return ExecFollower::read(std::move(again), from);
}

Status Sandbox::signal(const std::string& exec, int signo)
{
    BERTH_TRY(const auto number, keeping::keeper_id(exec));
    return keeper_.signal(number, signo, keeper::Scope::Group);
}

Status Sandbox::kill(const std::string& exec)
{
    BERTH_TRY(const auto number, keeping::keeper_id(exec));
    if (groups_) {
        if (auto group = groups_->open(exec)) return group->kill_all();
    }
    return keeper_.signal(number, SIGKILL, keeper::Scope::Group);
}

std::vector<std::string> Sandbox::struck_by(const std::string& exec) const
{
    std::vector<std::string> out;
    if (!groups_) return out;
    const auto before = read_file_at(directory_.get(), fmt::format("exec/{}/{}", exec, kStrikes));
    if (!before) return out;
    const auto words = split(*before, ' ');
    if (words.size() != 2) return out;
    const auto now = groups_->strikes();
    const auto grew = [](std::uint64_t count, const std::string& then) {
        return count >
               static_cast<std::uint64_t>(parse_int(then, 0, std::int64_t{1} << 60, "count").value_or(0));
    };
    const auto& limits = instance_.spec.policy.limits;
    if (limits.memory && grew(now.memory, words[0])) out.push_back(struck::by_memory(*limits.memory));
    if (limits.pids && grew(now.processes, words[1])) out.push_back(struck::by_processes(*limits.pids));
    return out;
}

Status Sandbox::pause()
{
    if (!groups_)
        return fail(Code::Unsupported,
                    "this process may not make groups below the container's: run berth as root");
    return keeping::pause_execs(directory_.get(), groups_->all());
}

Status Sandbox::resume()
{
    if (!groups_)
        return fail(Code::Unsupported,
                    "this process may not make groups below the container's: run berth as root");
    return keeping::resume_execs(directory_.get(), groups_->all());
}

Result<keeping::Paused> Sandbox::paused() const
{
    if (!groups_) return keeping::Paused{};
    return keeping::look_paused(directory_.get(), groups_->all());
}

} // namespace berth::docker
