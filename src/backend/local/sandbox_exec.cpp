// The execs of a kept sandbox: files of the log and a group first, then the keeper, which writes
// the log itself. Whatever of ours dies after that, the command and its log go on.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <csignal>

#include "backend/local/environment.hpp"
#include "backend/local/sandbox.hpp"
#include "backend/local/shared.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "core/exec_programs.hpp"
#include "keeper/wire_program.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/narrow.hpp"
#include "policy/target.hpp"
#include "sys/remove_tree.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::local {

namespace {

const TakesPrograms kTakesPrograms("local");

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr const char* kGroupLink = "group"; ///< in the directory of an exec

Result<UniqueFd> open_dir_at(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

bool has_patterns(const policy::Policy& policy)
{
    return std::ranges::any_of(policy.files,
                               [](const auto& rule) { return policy::is_pattern(rule.target); });
}

} // namespace

Status Sandbox::make_ahead(std::size_t count)
{
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    while (spares_.size() < count) {
        const std::string name = fmt::format("{}{}-{}", keeping::kSpare, ::getpid(), spare_count_++);
        BERTH_TRY(auto parts, make_starting(all.get(), name, ExecLog::Streams::Separate));
        spares_.push_back({.name = name, .parts = std::move(parts)});
    }
    return {};
}

void Sandbox::make_next()
{
    if (!wants_next() || !alive()) return;
    // Whoever ends or freezes it must not find something that is being made.
    const auto turn = Turn::take(directory_.get(), Turn::Kind::Start);
    if (!turn) return;
    if (spare_count_ == 0)
        if (const auto all = open_dir_at(directory_.get(), "exec")) sweep_spares(all->get());
    if (auto made = make_ahead(1); !made)
        log::debug("nothing is made ahead", {{"sandbox", id()}, {"why", made.error().line()}});
}

void Sandbox::drop_ahead() noexcept
{
    if (spares_.empty()) return;
    const auto all = open_dir_at(directory_.get(), "exec");
    for (auto& spare : spares_) {
        if (spare.parts.group) (void)spare.parts.group->remove();
        if (all) (void)sys::remove_tree(all->get(), spare.name);
    }
    spares_.clear();
}

void Sandbox::sweep_spares(int all)
{
    const auto names = list_names(all);
    if (!names) return;
    for (const auto& name : *names) {
        if (!name.starts_with(keeping::kSpare)) continue;
        pid_t maker = 0;
        std::from_chars(name.data() + keeping::kSpare.size(), name.data() + name.size(), maker);
        // Another's that lives, or one that only seems dead from here, is used or removed by itself.
        if (maker <= 0 || maker == ::getpid() || ::kill(maker, 0) == 0 || errno != ESRCH) continue;
        if (group_)
            if (auto group = group_of(name)) (void)group->remove();
        (void)sys::remove_tree(all, name);
    }
}

/// The directory of an exec's log, the files in it, and its group. A group cannot be renamed, so where
/// its name differs from the exec's the directory says it.
Result<Sandbox::Starting> Sandbox::make_starting(int all, const std::string& name, ExecLog::Streams streams)
{
    Starting made;
    if (::mkdirat(all, name.c_str(), 0700) != 0) return fail_errno("creating the log {} of {}", name, id());
    ScopeExit undo([&] {
        if (made.group) (void)made.group->remove();
        (void)sys::remove_tree(all, name);
    });
    BERTH_TRY(made.directory, open_dir_at(all, name));
    BERTH_TRY(auto log, ExecLog::create(made.directory.get(), streams));
    made.log.emplace(std::move(log));
    if (!group_) {
        undo.dismiss();
        return made;
    }
    const std::string group = name.starts_with('.') ? name.substr(1) : name;
    if (group != name && ::symlinkat(group.c_str(), made.directory.get(), kGroupLink) != 0)
        return fail_errno("naming the group of {}", name);
    BERTH_TRY(made.group, group_->make_exec(group));
    const auto& identity = prepared_->identity;
    if (identity.mode == IdMode::Mapped && !made.group->places().v2.empty())
        BERTH_CHECK(made.group->delegate(identity.outside(0), identity.outside(0)));
    undo.dismiss();
    return made;
}

Result<Sandbox::Starting> Sandbox::start(const ExecSpec& spec)
{
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    const auto make = [&] {
        return make_starting(all.get(), spec.id,
                             spec.terminal ? ExecLog::Streams::Terminal : ExecLog::Streams::Separate);
    };
    if (spec.terminal || spares_.empty()) return make();
    Spare spare = std::move(spares_.front());
    spares_.pop_front();
    if (::renameat2(all.get(), spare.name.c_str(), all.get(), spec.id.c_str(), RENAME_NOREPLACE) == 0)
        return std::move(spare.parts);
    // Taken away, by a stop or as what a dead process left; nothing else is known to happen.
    if (spare.parts.group) (void)spare.parts.group->remove();
    (void)sys::remove_tree(all.get(), spare.name);
    return make();
}

Result<sys::SandboxGroup> Sandbox::group_of(const std::string& exec) const
{
    char name[128];
    const std::string link = fmt::format("exec/{}/{}", exec, kGroupLink);
    const ssize_t n = ::readlinkat(directory_.get(), link.c_str(), &name[0], sizeof name);
    return group_->open_exec(n > 0 ? std::string(&name[0], static_cast<std::size_t>(n)) : exec);
}

void Sandbox::abandon(const ExecSpec& spec, Starting& starting)
{
    if (starting.group) (void)starting.group->remove();
    starting.log.reset();
    starting.directory.reset();
    if (auto all = open_dir_at(directory_.get(), "exec")) (void)sys::remove_tree(all->get(), spec.id);
}

Status Sandbox::exec(const ExecSpec& wanted, UniqueFd* attendance)
{
    ExecSpec spec = wanted;
    BERTH_CHECK(validate(spec));
    BERTH_TRY([[maybe_unused]] const auto number, keeper_id(spec.id));
    Account user = prepared_->user;
    if (!spec.user.empty()) {
        BERTH_TRY(user, asked_account(spec.user, prepared_->plan.layers, prepared_->identity));
        // Every account's home but the sandbox's own may be missing.
        const auto start = working_directory(prepared_->spec, spec, user, prepared_->plan.layers);
        if (spec.cwd.empty() && start == user.home) {
            BERTH_TRY(const auto root, open_of_keeper("root", O_RDONLY | O_DIRECTORY));
            const auto home = sys::resolve_in(root.get(), start, O_DIRECTORY);
            if (!home && home.error().code == Code::NotFound) spec.cwd = "/";
        }
    }
    if (spec.policy) {
        const auto& outer = prepared_->spec.policy;
        spec.policy = keeping::without_usual_limits(*std::move(spec.policy), outer.limits);
        BERTH_CHECK(policy::check_narrower(*spec.policy, outer, roots_of(prepared_->spec, user)));
    }
    // Held until the keeper has it: whoever freezes or ends it in good order waits for that.
    BERTH_TRY(const auto turn, Turn::take(directory_.get(), Turn::Kind::Start));
    if (!alive()) return fail(Code::Unavailable, "the keeper of {} is gone", native_);
    if (spec.log_limit.count < keeper::kMinLogLimit || spec.log_limit.count > keeper::kMaxLogLimit)
        return fail(Code::Invalid, "log limit {}: it must be {} to {}", show(spec.log_limit),
                    show(Bytes{keeper::kMinLogLimit}), show(Bytes{keeper::kMaxLogLimit}));
    BERTH_TRY(const auto state, paused());
    if (state.now) return fail(Code::Conflict, "sandbox {} is paused: berth resume {}", id(), id());
    BERTH_TRY(auto starting, start(spec));
    if (attendance != nullptr) *attendance = keeping::attend_log(*starting.log);
    hooks::kill_point("exec prepared");
    auto started = spec.policy ? exec_narrower(spec, user, starting) : exec_in_keeper(spec, user, starting);
    if (started)
        ++begun_;
    else
        abandon(spec, starting);
    return started;
}

keeping::ExecTime Sandbox::time_of(const ExecSpec& spec, const Starting& starting) const
{
    return {*spec.timeout, directory_.get(), group_ ? &group_->execs() : nullptr,
            starting.group ? &*starting.group : nullptr};
}

Status Sandbox::exec_in_keeper(const ExecSpec& spec, const Account& user, Starting& starting)
{
    KeeperExec what;
    UniqueFd procs;
    BERTH_TRY(what.id, keeper_id(spec.id));
    what.argv = spec.argv;
    what.env = environment(prepared_->spec, spec, user, prepared_->plan.layers);
    what.cwd = working_directory(prepared_->spec, spec, user, prepared_->plan.layers);
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
    if (starting.group) {
        const int directory = starting.group->birth_directory();
        // Only who cannot gain privileges may be born by clone3: the filter that takes it away again needs
        // that.
        const bool born = directory >= 0 && !may_gain(prepared_->spec, prepared_->identity);
        what.group_kind = born ? keeper::GroupKind::V2Directory : keeper::GroupKind::V1Tasks;
        if (born) what.groups.push_back(directory);
        if (!born && directory >= 0) {
            procs.reset(::openat(directory, "cgroup.procs", O_WRONLY | O_CLOEXEC));
            if (!procs) return fail_errno("opening the group of {}", spec.id);
            what.groups.push_back(procs.get());
        }
        for (const int tasks : group_->birth_tasks(*starting.group)) what.groups.push_back(tasks);
    }
    if (const int program = program_of(spec.id); program >= 0) {
        // The kernel keeps everybody out of a program that cannot be read who has no power over its owner.
        // The supervisor of deny patterns, which must read the paths it is asked about, has power in the
        // sandbox alone. Nobody inside has that, whoever the owner is.
        const auto& identity = prepared_->identity;
        if (identity.mode == IdMode::Mapped && has_patterns(prepared_->spec.policy) &&
            ::fchown(program, identity.outside(0), identity.outside(0)) != 0)
            return fail_errno("giving the program of {} to its sandbox", spec.id);
        what.flags |= keeper::kProgram;
        what.groups.push_back(program);
    }
    if (spec.timeout) time_of(spec, starting).tell(keeper_, what.id);
    BERTH_TRY(const auto launched, keeper_.exec(what, *starting.log));
    if (!launched.started())
        return std::unexpected(start_error(launched.step, launched.error, spec, what.cwd));
    // The oldest goes: whoever asks for a number asks at once.
    constexpr std::size_t most = 1024;
    pids_[spec.id] = launched.pid;
    if (pids_.size() > most) pids_.erase(pids_.begin());
    return {};
}

Result<ExecFollower> Sandbox::follow(const std::string& exec, std::uint64_t from)
{
    BERTH_TRY(auto log, open_log(directory_.get(), exec));
    BERTH_TRY(const bool closed, log.closed());
    if (closed) return ExecFollower::read(std::move(log), from);
    BERTH_TRY(const auto number, keeper_id(exec));
    auto keeper = KeeperClient::connect(directory_.get(), "sock", kPatience);
    if (!keeper) return ExecFollower::read(std::move(log), from);
    auto follower = ExecFollower::follow(std::move(log), number, from, *std::move(keeper));
    if (follower || follower.error().code != Code::NotFound) return follower;
    // An exec of an earlier keeper, or one that is just being started.
    BERTH_TRY(auto again, open_log(directory_.get(), exec));
    return ExecFollower::read(std::move(again), from);
}

Status Sandbox::signal(const std::string& exec, int signo)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    return keeper_.signal(number, signo, keeper::Scope::Group);
}

Status Sandbox::kill(const std::string& exec)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    if (group_) {
        if (auto group = group_of(exec)) return kill_group(*group);
    }
    return keeper_.signal(number, SIGKILL, keeper::Scope::Group);
}

Result<std::size_t> Sandbox::write_input(const std::string& exec, std::uint64_t write_id,
                                         std::string_view bytes)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    return keeper_.write_stdin(number, write_id, bytes);
}

Status Sandbox::close_input(const std::string& exec, std::uint64_t write_id)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    return keeper_.close_stdin(number, write_id);
}

Status Sandbox::resize(const std::string& exec, TerminalSize size)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    return keeper_.resize(number, size.rows, size.columns);
}

void Sandbox::forget(const std::string& exec)
{
    let_go(exec);
    struck_.erase(exec);
    if (const auto number = keeper_id(exec)) keeper_.forget(*number);
    if (!group_) return;
    if (auto group = group_of(exec)) (void)group->remove();
}

} // namespace berth::local
