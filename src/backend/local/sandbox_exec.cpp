// The execs of a kept sandbox: files of the log and a group first, then the keeper, which writes
// the log itself. Whatever of ours dies after that, the command and its log go on.

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <csignal>

#include "backend/local/environment.hpp"
#include "backend/local/sandbox.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

Result<UniqueFd> open_dir_at(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

} // namespace

Result<std::uint64_t> keeper_id(std::string_view exec)
{
    if (!is_id(exec, "exec_"))
        return fail(Code::Invalid, "'{}' is not the id of an exec", printable(exec, 60));
    constexpr std::string_view digits = "0123456789abcdefghjkmnpqrstvwxyz";
    std::uint64_t number = 0;
    for (const char c : exec.substr(exec.size() - 12)) number = number << 5 | digits.find(c);
    return number | std::uint64_t{1} << 60; // never 0
}

Error start_error(keeper::Step step, int error, const ExecSpec& spec, const std::string& cwd)
{
    const std::error_code sys(error, std::generic_category());
    Error out{.code = code_of_errno(error),
              .message = fmt::format("{}: {}", to_string(step), sys.message()),
              .sys = sys};
    const std::string command = printable(spec.argv.front());
    if (step == keeper::Step::Command && error == ENOENT) {
        out.code = Code::NotFound;
        out.message = fmt::format("command not found in the sandbox: {}", command);
    } else if (step == keeper::Step::Command) {
        out.code = Code::Denied;
        out.message = fmt::format("cannot execute {}: {}", command, sys.message());
    } else if (step == keeper::Step::Directory) {
        out.message = fmt::format("working directory {}: {}", printable(cwd), sys.message());
    }
    return out;
}

Status Sandbox::make_ahead(std::size_t logs)
{
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    while (spares_.size() < logs) {
        const std::string name = fmt::format(".spare-{}-{}", ::getpid(), spare_count_++);
        if (::mkdirat(all.get(), name.c_str(), 0700) != 0) return fail_errno("creating a log in {}", id());
        BERTH_TRY(auto directory, open_dir_at(all.get(), name));
        BERTH_TRY(auto log, ExecLog::create(directory.get(), ExecLog::Streams::Separate));
        spares_.push_back({.name = name, .directory = std::move(directory), .log = std::move(log)});
    }
    return {};
}

Result<Sandbox::Starting> Sandbox::start(const ExecSpec& spec)
{
    Starting starting;
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    if (!spec.terminal && !spares_.empty()) {
        Spare spare = std::move(spares_.front());
        spares_.pop_front();
        if (::renameat2(all.get(), spare.name.c_str(), all.get(), spec.id.c_str(), RENAME_NOREPLACE) != 0)
            return fail_errno("naming the log of {}", spec.id);
        starting.directory = std::move(spare.directory);
        starting.log.emplace(std::move(spare.log));
    } else {
        if (::mkdirat(all.get(), spec.id.c_str(), 0700) != 0)
            return fail_errno("creating the log of {}", spec.id);
        BERTH_TRY(starting.directory, open_dir_at(all.get(), spec.id));
        BERTH_TRY(auto log,
                  ExecLog::create(starting.directory.get(),
                                  spec.terminal ? ExecLog::Streams::Terminal : ExecLog::Streams::Separate));
        starting.log.emplace(std::move(log));
    }
    if (group_) {
        BERTH_TRY(auto group, group_->make_exec(spec.id));
        const auto& identity = prepared_->identity;
        if (identity.mode == IdMode::Mapped && !group.places().v2.empty())
            BERTH_CHECK(group.delegate(identity.outside(0), identity.outside(0)));
        starting.group.emplace(std::move(group));
    }
    return starting;
}

void Sandbox::abandon(const ExecSpec& spec, Starting& starting)
{
    if (starting.group) (void)starting.group->remove();
    starting.log.reset();
    starting.directory.reset();
    if (auto all = open_dir_at(directory_.get(), "exec")) (void)sys::remove_tree(all->get(), spec.id);
}

Status Sandbox::exec(const ExecSpec& spec)
{
    BERTH_CHECK(validate(spec));
    BERTH_TRY([[maybe_unused]] const auto number, keeper_id(spec.id));
    Account user = prepared_->user;
    if (!spec.user.empty()) {
        BERTH_TRY(user, account_for(spec.user, prepared_->plan.layers, prepared_->identity));
    }
    if (spec.policy)
        BERTH_CHECK(
            policy::check_narrower(*spec.policy, prepared_->spec.policy, roots_of(prepared_->spec, user)));
    BERTH_TRY(auto starting, start(spec));
    hooks::kill_point("exec prepared");
    auto started = spec.policy ? exec_narrower(spec, user, starting) : exec_in_keeper(spec, user, starting);
    if (!started) abandon(spec, starting);
    return started;
}

Status Sandbox::exec_in_keeper(const ExecSpec& spec, const Account& user, Starting& starting)
{
    KeeperExec what;
    BERTH_TRY(what.id, keeper_id(spec.id));
    what.argv = spec.argv;
    what.env = environment(prepared_->spec, spec, user);
    what.cwd = working_directory(prepared_->spec, spec, user);
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
    if (starting.group) {
        const int directory = starting.group->birth_directory();
        what.group_kind = directory >= 0 ? keeper::GroupKind::V2Directory : keeper::GroupKind::V1Tasks;
        if (directory >= 0) what.groups.push_back(directory);
        for (const int tasks : starting.group->birth_tasks()) what.groups.push_back(tasks);
    }
    BERTH_TRY(const auto launched, keeper_.exec(what, *starting.log));
    if (!launched.started())
        return std::unexpected(start_error(launched.step, launched.error, spec, what.cwd));
    return {};
}

Result<ExecLog> Sandbox::open_log(const std::string& exec) const
{
    if (!is_id(exec, "exec_"))
        return fail(Code::Invalid, "'{}' is not the id of an exec", printable(exec, 60));
    BERTH_TRY(const auto all, open_dir_at(directory_.get(), "exec"));
    BERTH_TRY(const auto directory, open_dir_at(all.get(), exec));
    return ExecLog::open(directory.get());
}

Result<ExecFollower> Sandbox::follow(const std::string& exec, std::uint64_t from)
{
    BERTH_TRY(auto log, open_log(exec));
    BERTH_TRY(const auto number, keeper_id(exec));
    auto keeper = KeeperClient::connect(directory_.get(), "sock", kPatience);
    if (!keeper) return ExecFollower::read(std::move(log), from);
    return ExecFollower::follow(std::move(log), number, from, *std::move(keeper));
}

/// Looks for the exit in the index alone, so that a long log is not read for one number; woken by
/// the keeper through an eventfd.
Result<std::optional<ExitStatus>> Sandbox::wait(const std::string& exec, std::chrono::milliseconds patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    BERTH_TRY(const auto log, open_log(exec));
    BERTH_TRY(const auto number, keeper_id(exec));
    const UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return fail_errno("making an eventfd");
    auto keeper = KeeperClient::connect(directory_.get(), "sock", kPatience);
    if (keeper) {
        if (auto following = keeper->follow(number, wake.get()); !following)
            return std::unexpected(following.error());
    }
    for (std::uint64_t at = 0;;) {
        BERTH_TRY(const auto records, log.records(at, 1024));
        for (const auto& record : records) {
            if (record.kind != keeper::Kind::Exit) continue;
            if (record.status == keeper::kStatusUnknown) return ExitStatus::unknown();
            return ExitStatus::from_wait(record.status);
        }
        at += records.size();
        if (!records.empty()) continue;
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return std::optional<ExitStatus>{};
        pollfd ready[2] = {{.fd = wake.get(), .events = POLLIN, .revents = 0},
                           {.fd = keeper ? keeper->socket() : -1, .events = 0, .revents = 0}};
        ::poll(&ready[0], 2, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000)));
        if (ready[1].revents != 0) return fail(Code::Unavailable, "the keeper of {} is gone", id());
        std::uint64_t count = 0;
        [[maybe_unused]] const auto n = ::read(wake.get(), &count, sizeof count);
    }
}

Result<Sandbox::Ended> Sandbox::wait_or_kill(const std::string& exec, std::chrono::milliseconds timeout)
{
    Ended ended;
    BERTH_TRY(auto status, wait(exec, timeout));
    if (!status) {
        ended.timed_out = true;
        BERTH_CHECK(kill(exec));
        BERTH_TRY(status, wait(exec, kPatience));
    }
    ended.status = status.value_or(ExitStatus::unknown());
    if (group_) {
        if (auto group = group_->open_exec(exec)) {
            const auto& limits = prepared_->spec.policy.limits;
            if (limits.memory && group_->execs().oom_kills().value_or(0) > 0)
                ended.struck.push_back(fmt::format("memory limit {}", show(*limits.memory)));
            if (limits.pids && group_->execs().pids_max_events().value_or(0) > 0)
                ended.struck.push_back(fmt::format("process limit {}", *limits.pids));
        }
    }
    return ended;
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
        if (auto group = group_->open_exec(exec)) return group->kill_all();
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
    protects_.erase(exec);
    if (!group_) return;
    if (auto group = group_->open_exec(exec)) (void)group->remove();
}

} // namespace berth::local
