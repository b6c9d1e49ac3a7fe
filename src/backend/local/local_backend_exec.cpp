// Execs and files of the local backend. The rule of its locks: a sandbox is locked for as long as
// one question takes; waiting for output and moving file contents happens without.

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "backend/local/exec_logs.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/local_backend_with.hpp"
#include "backend/local/log_wait.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kCheckInterval = 5ms; // a chatty exec is not looked at for its end with each line
constexpr std::size_t kPromptChecks = 3;

SteadyTime now() { return system_clock().steady(); }

FileEntry::Kind kind_of(sys::FileKind kind)
{
    switch (kind) {
    case sys::FileKind::Regular: return FileEntry::Kind::Regular;
    case sys::FileKind::Directory: return FileEntry::Kind::Directory;
    case sys::FileKind::Symlink: return FileEntry::Kind::Symlink;
    case sys::FileKind::Other: return FileEntry::Kind::Other;
    }
    return FileEntry::Kind::Other;
}

FileEntry entry_of(sys::FileEntry entry, const image::ReadIds& ids)
{
    constexpr std::uint64_t nobody = 65534;
    const auto inside = [&](std::uint32_t id, std::uint32_t first) {
        return static_cast<std::uint32_t>(std::min(ids.inside(id, first), nobody));
    };
    return {.name = std::move(entry.name),
            .kind = kind_of(entry.kind),
            .size = entry.size,
            .mode = entry.mode,
            .modified = entry.modified,
            .target = std::move(entry.target),
            .uid = inside(entry.uid, ids.first_uid),
            .gid = inside(entry.gid, ids.first_gid)};
}

/// The end of an exec whose keeper is gone: as the log has it, or unknown.
Result<std::optional<Ended>> ended_in_log(const StateDir& state, const std::string& native,
                                          const std::string& exec)
{
    BERTH_CHECK(settle_log(state, native, exec));
    BERTH_TRY(const auto directory, open_instance(state, native));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    std::uint64_t at = 0;
    BERTH_TRY(const auto status, find_exit(log, at));
    if (!status) return std::optional<Ended>{};
    return Ended{.status = *status, .struck = {}};
}

bool is_stopped(const Error& error) { return error.code == Code::Conflict; }

} // namespace

Task<Status> LocalBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.exec(spec); });
}

Task<Result<ExecFollower>> LocalBackend::follower_of(SandboxHandle sandbox, std::string exec,
                                                     std::uint64_t from)
{
    const auto follow = [&](Sandbox& s) { return s.follow(exec, from); };
    auto follower = co_await with(sandbox, follow);
    if (follower || !is_stopped(follower.error())) co_return follower;
    co_return co_await pool_.call([&]() -> Result<ExecFollower> {
        BERTH_CHECK(settle_log(state_, sandbox.native, exec));
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        BERTH_TRY(auto log, open_log(directory.get(), exec));
        return ExecFollower::read(std::move(log), from);
    });
}

Task<Result<std::vector<ExecEvent>>> LocalBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                               std::uint64_t from, SteadyTime until)
{
    for (bool settled = false;; settled = true) {
        BERTH_CO_TRY(auto follower, co_await follower_of(sandbox, exec, from));
        for (;;) {
            const auto started = now();
            const auto next = [&] { return follower.next(started); };
            BERTH_CO_TRY(auto events, co_await pool_.call(next));
            if (!events.empty() || follower.ended() || started >= until) co_return events;
            const bool alone = follower.keeper_gone() || follower.keeper_descriptor() < 0;
            if (alone && settled) co_return events; // complete, and nothing of it is after `from`
            if (alone) break;
            co_await log_grows(follower, until);
        }
        // Nobody writes to it any more: what is missing is its end.
        const auto settle = [&] { return settle_log(state_, sandbox.native, exec); };
        if (auto done = co_await pool_.call(settle); !done) co_return std::unexpected(done.error());
    }
}

Task<Result<std::optional<Ended>>> LocalBackend::wait(SandboxHandle sandbox, std::string exec,
                                                      SteadyTime until)
{
    const auto in_log = [&] { return ended_in_log(state_, sandbox.native, exec); };
    const auto check = [&](Sandbox& s) -> Result<std::optional<Ended>> {
        BERTH_TRY(const auto status, s.wait(exec, 0ms));
        if (!status) return std::optional<Ended>{};
        BERTH_TRY(auto ended, s.wait_or_kill(exec, 0ms)); // it has ended: nothing is killed
        return Ended{.status = ended.status, .struck = std::move(ended.struck)};
    };
    const auto follow = [&](Sandbox& s) { return s.follow(exec, 0); };
    auto follower = co_await with(sandbox, follow);
    if (!follower && is_stopped(follower.error())) co_return co_await pool_.call(in_log);
    if (!follower) co_return std::unexpected(std::move(follower).error());
    boost::asio::steady_timer breath(co_await boost::asio::this_coro::executor);
    for (std::size_t checks = 1;; ++checks) {
        const bool last = now() >= until;
        const bool alive = clear_growth(*follower);
        if (alive || follower->keeper_descriptor() < 0) {
            auto ended = co_await with(sandbox, check);
            if (ended && (*ended || last)) co_return ended;
            if (!ended && !is_stopped(ended.error()) && ended.error().code != Code::NotFound) co_return ended;
        }
        if (!alive) co_return co_await pool_.call(in_log);
        co_await log_grows(*follower, until);
        if (checks < kPromptChecks) continue;
        breath.expires_after(kCheckInterval);
        co_await breath.async_wait(boost::asio::use_awaitable);
    }
}

Task<Status> LocalBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.signal(exec, signo); });
}

Task<Status> LocalBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.kill(exec); });
}

Task<Result<std::size_t>> LocalBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                    std::uint64_t write_id, std::string bytes)
{
    const auto write = [&](Sandbox& s) { return s.write_input(exec, write_id, bytes); };
    co_return co_await with(sandbox, write);
}

Task<Status> LocalBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t write_id)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.close_input(exec, write_id); });
}

Task<Status> LocalBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.resize(exec, size); });
}

Task<Result<std::string>> LocalBackend::read_file(SandboxHandle sandbox, FilePath file, Bytes limit)
{
    const auto read = [&](const sys::SandboxFiles& files) { return files.read(file.path, limit); };
    co_return co_await with_files(sandbox, file.user, read);
}

Task<Status> LocalBackend::write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                      std::optional<unsigned> mode)
{
    const auto write = [&](const sys::SandboxFiles& files) {
        return files.write(file.path, bytes, {.mode = mode});
    };
    co_return co_await with_files(sandbox, file.user, write);
}

Task<Result<std::vector<FileEntry>>> LocalBackend::list_files(SandboxHandle sandbox, FilePath directory)
{
    image::ReadIds ids;
    const auto open = [&](Sandbox& s) {
        ids = s.shown_ids();
        return s.files(directory.user);
    };
    BERTH_CO_TRY(const auto files, co_await with(sandbox, open));
    co_return co_await pool_.call([&]() -> Result<std::vector<FileEntry>> {
        BERTH_TRY(auto entries, files.list(directory.path));
        std::vector<FileEntry> out;
        out.reserve(entries.size());
        for (auto& entry : entries) out.push_back(entry_of(std::move(entry), ids));
        return out;
    });
}

Task<Result<FileEntry>> LocalBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    image::ReadIds ids;
    const auto open = [&](Sandbox& s) {
        ids = s.shown_ids();
        return s.files(file.user);
    };
    BERTH_CO_TRY(const auto files, co_await with(sandbox, open));
    co_return co_await pool_.call([&]() -> Result<FileEntry> {
        const auto follow = file.follow ? sys::Follow::Yes : sys::Follow::No;
        BERTH_TRY(auto entry, files.stat(file.path, follow));
        return entry_of(std::move(entry), ids);
    });
}

Task<Status> LocalBackend::make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents)
{
    const auto how = parents == MakeParents::Yes ? sys::Parents::Make : sys::Parents::Existing;
    const auto make = [&](const sys::SandboxFiles& files) {
        return files.make_dir(directory.path, 0755, how);
    };
    co_return co_await with_files(sandbox, directory.user, make);
}

Task<Status> LocalBackend::move_file(SandboxHandle sandbox, FilePath from, std::string to)
{
    const auto move = [&](const sys::SandboxFiles& files) { return files.move(from.path, to); };
    co_return co_await with_files(sandbox, from.user, move);
}

Task<Status> LocalBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    const auto depth = tree == RemoveTree::Yes ? sys::Depth::Tree : sys::Depth::Entry;
    const auto remove = [&](const sys::SandboxFiles& files) { return files.remove(file.path, depth); };
    co_return co_await with_files(sandbox, file.user, remove);
}

Task<Result<UniqueFd>> LocalBackend::open_file(SandboxHandle sandbox, FilePath file)
{
    const auto open = [&](const sys::SandboxFiles& files) { return files.open_file(file.path); };
    co_return co_await with_files(sandbox, file.user, open);
}

Task<Status> LocalBackend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    const auto fill = [&](const sys::SandboxFiles& files) {
        return files.write_from(file.path, contents.source.get(), contents.limit,
                                {.how = sys::WriteOptions::How::InPlace, .mode = contents.mode});
    };
    co_return co_await with_files(sandbox, file.user, fill);
}

Task<Result<int>> LocalBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.exec_pid(exec); });
}

Task<Result<Usage>> LocalBackend::usage(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Sandbox& s) -> Result<Usage> { return s.usage(); });
}

Task<Result<std::vector<ExecInfo>>> LocalBackend::execs(SandboxHandle sandbox)
{
    auto living = co_await with(sandbox, [&](Sandbox& s) { return s.all_execs(); });
    if (living || !is_stopped(living.error())) co_return living;
    co_return co_await pool_.call([&]() -> Result<std::vector<ExecInfo>> {
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        return list_logs(directory.get(), LogKeeper::Gone);
    });
}

Task<Status> LocalBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await pool_.call([&] { return settle_log(state_, sandbox.native, exec); });
}

} // namespace berth::local
