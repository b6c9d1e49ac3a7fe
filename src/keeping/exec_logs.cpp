#include "keeping/exec_logs.hpp"

#include <fcntl.h>

#include <algorithm>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "sys/remove_tree.hpp"

namespace berth::keeping {

namespace {

ExitStatus exit_of(int status)
{
    return status == keeper::kStatusUnknown ? ExitStatus::unknown() : ExitStatus::from_wait(status);
}

Result<UniqueFd> open_dir_at(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

} // namespace

Result<ExecLog> open_log(int directory, const std::string& exec, ExecLog::Access access)
{
    if (!is_id(exec, "exec_"))
        return fail(Code::Invalid, "'{}' is not the id of an exec", printable(exec, 60));
    BERTH_TRY(const auto all, open_dir_at(directory, "exec"));
    BERTH_TRY(const auto own, open_dir_at(all.get(), exec));
    return ExecLog::open(own.get(), access);
}

Status finish_log(int directory, const std::string& exec)
{
    BERTH_TRY(auto log, open_log(directory, exec, ExecLog::Access::Repair));
    if (const auto closed = log.closed(); closed && *closed) return {}; // a damaged one is not
    return log.repair(system_clock().now());
}

Result<std::optional<ExitStatus>> find_exit(const ExecLog& log, std::uint64_t& at)
{
    for (;;) {
        BERTH_TRY(const auto records, log.records(at, 1024));
        for (const auto& record : records)
            if (record.kind == keeper::Kind::Exit) return exit_of(record.status);
        at += records.size();
        if (records.empty()) return std::optional<ExitStatus>{};
    }
}

Result<std::vector<ExecInfo>> list_logs(int directory, LogKeeper keeper)
{
    BERTH_TRY(const auto all, open_dir_at(directory, "exec"));
    BERTH_TRY(const auto names, list_names(all.get()));
    std::vector<ExecInfo> out;
    for (const auto& name : names) {
        if (!is_id(name, "exec_")) continue;
        auto log = open_log(directory, name);
        if (!log && log.error().code == Code::NotFound) continue; // it could not be started: just removed
        if (!log) return std::unexpected(std::move(log).error());
        std::uint64_t at = 0;
        BERTH_TRY(auto status, find_exit(*log, at));
        if (!status && keeper == LogKeeper::Gone) status = ExitStatus::unknown();
        out.push_back({.id = name, .running = !status, .status = status, .events = at});
    }
    return out;
}

Status trim_logs(int directory, std::size_t keep)
{
    BERTH_TRY(const auto all, open_dir_at(directory, "exec"));
    BERTH_TRY(auto names, list_names(all.get()));
    std::erase_if(names, [](const auto& name) { return !is_id(name, "exec_"); });
    if (names.size() <= keep) return {};
    names.resize(names.size() - keep); // their names are in the order of their beginnings
    for (const auto& name : names) {
        const auto log = open_log(directory, name);
        if (!log) continue;
        if (const auto closed = log->closed(); closed && *closed)
            BERTH_CHECK(sys::remove_tree(all.get(), name));
    }
    return {};
}

Status trim_logs_after(int directory, const std::string& exec)
{
    // The last of 32 letters, of which each is as likely as any other.
    if (!exec.ends_with('0')) return {};
    return trim_logs(directory);
}

Status remove_spares(int directory)
{
    BERTH_TRY(const auto all, open_dir_at(directory, "exec"));
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& name : names)
        if (name.starts_with(kSpare)) BERTH_CHECK(sys::remove_tree(all.get(), name));
    return {};
}

Status settle_logs(const std::string& native, int directory)
{
    BERTH_CHECK(remove_spares(directory));
    BERTH_TRY(const auto all, open_dir_at(directory, "exec"));
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& name : names) {
        if (is_id(name, "exec_")) {
            auto settled = finish_log(directory, name);
            // One whose starter was killed before it had all files never ran.
            if (!settled && settled.error().code == Code::NotFound)
                settled = sys::remove_tree(all.get(), name);
            if (!settled)
                return std::unexpected(std::move(settled).error().while_doing(
                    fmt::format("settling the log {} of {}", name, native)));
        }
    }
    return {};
}

} // namespace berth::keeping
