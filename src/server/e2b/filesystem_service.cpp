#include "server/e2b/filesystem_service.hpp"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "core/moves_over.hpp"
#include "core/watches_one.hpp"
#include "server/e2b/entry_info.hpp"
#include "server/e2b/made_for.hpp"
#include "server/e2b/rpc.hpp"

namespace berth::e2b {

namespace {

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;
using connect::Failure;

constexpr std::size_t kMostEntries = 100'000;
constexpr std::size_t kMostWatchers = 64; // of one sandbox

SteadyTime now() { return system_clock().steady(); }

std::unexpected<Failure> refuse(connect::Status status, std::string message)
{
    return std::unexpected(Failure{.status = status, .message = std::move(message)});
}

std::unexpected<Failure> refuse(const Error& error) { return std::unexpected(connect::failure_of(error)); }

/// One change, as this protocol names it; nothing for what it has no word for.
std::optional<WatchEvent> event_of(FileChange::Kind kind)
{
    switch (kind) {
    case FileChange::Kind::Created: return WatchEvent::Create;
    case FileChange::Kind::Written: return WatchEvent::Write;
    case FileChange::Kind::Removed: return WatchEvent::Remove;
    case FileChange::Kind::Renamed: return WatchEvent::Rename;
    case FileChange::Kind::Attributes: return WatchEvent::Chmod;
    case FileChange::Kind::Overflow: return std::nullopt;
    }
    return std::nullopt;
}

/// What is below the directory is watched only where it was asked for: that may be very much.
Task<Result<std::vector<FileChange>>> changes_of(EnvdCall& call, const Entry::Watcher& watcher,
                                                 const std::string& id, SteadyTime until)
{
    FilePath directory{.path = watcher.path, .user = watcher.user};
    auto* const one = watcher.recursive ? nullptr : dynamic_cast<WatchesOne*>(&call.backend);
    if (one != nullptr) return one->watch_one(call.handle, id, std::move(directory), until);
    return call.backend.watch(call.handle, id, std::move(directory), until);
}

/// The same of a watch that has begun. That the directory itself was removed is its last change, and no
/// error: clients hold on to their watch.
Task<Result<std::vector<FileChange>>> further_changes_of(EnvdCall& call, Entry::Watcher& watcher,
                                                         const std::string& id, SteadyTime until)
{
    std::vector<FileChange> out;
    if (watcher.gone) {
        boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, until);
        co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
        co_return out;
    }
    auto changes = co_await changes_of(call, watcher, id, until);
    if (changes || changes.error().code != Code::NotFound) co_return changes;
    watcher.gone = true;
    out.push_back({.kind = FileChange::Kind::Removed, .path = "."});
    co_return out;
}

Task<std::vector<FilesystemEvent>> events_of(const EnvdCall& call, const Entry::Watcher& watcher,
                                             const std::vector<FileChange>& changes)
{
    std::vector<FilesystemEvent> out;
    for (const auto& change : changes) {
        const auto type = event_of(change.kind);
        if (!type || (!watcher.recursive && change.path.find('/') != std::string::npos)) continue;
        FilesystemEvent event{.name = change.path, .type = *type};
        const bool shown = *type != WatchEvent::Remove && *type != WatchEvent::Rename;
        if (watcher.include_entry && shown) {
            const std::string path = watcher.path + "/" + change.path;
            auto entry = co_await call.backend.stat_file(
                call.handle, {.path = path, .user = watcher.user, .follow = false});
            if (entry) event.entry = co_await entry_info(call, path, *std::move(entry), watcher.user);
        }
        out.push_back(std::move(event));
    }
    co_return out;
}

} // namespace

Task<bool> FilesystemService::answer(EnvdCall& call, std::string_view method)
{
    if (method == "WatchDir") {
        co_await watch(call);
        co_return true;
    }
    const bool known = method == "Stat" || method == "MakeDir" || method == "Move" || method == "ListDir" ||
                       method == "Remove" || method == "CreateWatcher" || method == "GetWatcherEvents" ||
                       method == "RemoveWatcher";
    if (!known) co_return false;
    auto answer = co_await unary(call, method);
    if (call.exchange.begun()) co_return true;
    if (answer)
        co_await rpc::send_message(call.exchange, *std::move(answer));
    else
        co_await send_failure(call.exchange, answer.error());
    co_return true;
}

Task<std::expected<FilesystemService::Request, Failure>> FilesystemService::read(EnvdCall& call,
                                                                                 std::string text)
{
    auto message = read_filesystem_call(text);
    if (!message) co_return refuse(message.error());
    auto user = co_await user_of(call);
    if (!user) co_return std::unexpected(user.error());
    auto path = resolve_path(call, *user, message->path);
    if (!path) co_return std::unexpected(path.error());
    co_return Request{
        .call = call, .message = *std::move(message), .user = *std::move(user), .path = *std::move(path)};
}

Task<FilesystemService::Outcome> FilesystemService::unary(EnvdCall& call, std::string_view method)
{
    auto text = co_await rpc::unary_message(call.exchange);
    if (!text) co_return std::string{};
    auto request = co_await read(call, *std::move(text));
    if (!request) co_return std::unexpected(request.error());
    if (method == "Stat") co_return co_await stat(*request);
    if (method == "MakeDir") co_return co_await make_dir(*request);
    if (method == "Move") co_return co_await move(*request);
    if (method == "ListDir") co_return co_await list(*request);
    if (method == "Remove") co_return co_await remove(*request);
    if (method == "CreateWatcher") co_return co_await create_watcher(*request);
    if (method == "GetWatcherEvents") co_return co_await watcher_events(*request);
    co_return co_await remove_watcher(*request);
}

Task<FilesystemService::Outcome> FilesystemService::stat(Request& request)
{
    auto& call = request.call;
    std::string as;
    auto entry =
        co_await as_user(call, request.user, request.path, [&](std::string who) -> Task<Result<FileEntry>> {
            as = who;
            co_return co_await call.backend.stat_file(
                call.handle, {.path = request.path, .user = std::move(who), .follow = false});
        });
    if (!entry) co_return refuse(entry.error());
    const auto info = co_await entry_info(call, request.path, *std::move(entry), as);
    co_return entry_answer(info);
}

Task<FilesystemService::Outcome> FilesystemService::make_dir(Request& request)
{
    auto& call = request.call;
    const auto look = [&](std::string who) -> Task<Result<FileEntry>> {
        co_return co_await call.backend.stat_file(call.handle,
                                                  {.path = request.path, .user = std::move(who)});
    };
    const auto there = co_await as_user(call, request.user, request.path, look);
    if (there && there->kind == FileEntry::Kind::Directory)
        co_return refuse(connect::Status::AlreadyExists,
                         fmt::format("directory already exists: {}", request.path));
    if (there)
        co_return refuse(connect::Status::InvalidArgument,
                         fmt::format("path already exists but it is not a directory: {}", request.path));
    const auto made =
        co_await as_user(call, request.user, request.path, [&](std::string who) -> Task<Status> {
            co_return co_await make_dir_for(call, request.user, std::move(who), request.path);
        });
    if (!made) co_return refuse(made.error());
    co_return co_await stat(request);
}

Task<FilesystemService::Outcome> FilesystemService::move(Request& request)
{
    auto& call = request.call;
    const auto from = resolve_path(call, request.user, request.message.source);
    if (!from) co_return std::unexpected(from.error());
    const auto to = resolve_path(call, request.user, request.message.destination);
    if (!to) co_return std::unexpected(to.error());
    const auto source =
        co_await as_user(call, request.user, *from, [&](std::string who) -> Task<Result<FileEntry>> {
            co_return co_await call.backend.stat_file(
                call.handle, {.path = *from, .user = std::move(who), .follow = false});
        });
    if (!source) co_return refuse(source.error());
    const auto parents = co_await make_parents_for(call, request.user, *to);
    if (!parents) co_return refuse(parents.error());
    const auto rename = [&](std::string who) {
        auto* const over = dynamic_cast<MovesOver*>(&call.backend);
        if (over != nullptr) return over->move_over(call.handle, {.path = *from, .user = who}, *to);
        return call.backend.move_file(call.handle, {.path = *from, .user = who}, *to);
    };
    auto moved = co_await as_user(call, request.user, *from, rename);
    if (!moved) co_await unmake_parents(call, request.user, *parents);
    // Whoever may take it from where it is may not write to the user's new directories, but to his own.
    if (!moved && moved.error().code == Code::Denied && !parents->empty())
        moved = co_await as_user(call, request.user, *from, [&](std::string who) -> Task<Status> {
            const FilePath parent{.path = parents->back(), .user = who};
            auto done = co_await call.backend.make_dir(call.handle, parent, MakeParents::Yes);
            if (done) done = co_await rename(who);
            if (!done) co_await unmake_parents(call, request.user, *parents);
            co_return done;
        });
    if (!moved) co_return refuse(moved.error());
    request.path = *to;
    co_return co_await stat(request);
}

Task<FilesystemService::Outcome> FilesystemService::list(Request& request)
{
    auto& call = request.call;
    std::string as = request.user.name;
    const auto read = [&](const std::string& path) {
        return as_user(call, request.user, path,
                       [&call, &as, path](std::string who) -> Task<Result<std::vector<FileEntry>>> {
                           as = who;
                           co_return co_await call.backend.list_files(call.handle,
                                                                      {.path = path, .user = std::move(who)});
                       });
    };
    const auto top =
        co_await as_user(call, request.user, request.path, [&](std::string who) -> Task<Result<FileEntry>> {
            co_return co_await call.backend.stat_file(call.handle,
                                                      {.path = request.path, .user = std::move(who)});
        });
    if (!top && top.error().sys.value() == ELOOP)
        co_return refuse(connect::Status::FailedPrecondition, top.error().message);
    if (!top) co_return refuse(top.error());
    if (top->kind != FileEntry::Kind::Directory)
        co_return refuse(connect::Status::InvalidArgument,
                         fmt::format("path is not a directory: {}", request.path));
    struct Level {
        std::string path;
        std::vector<FileEntry> entries;
        std::map<std::string, FileMetadata> metadata;
        std::size_t next = 0;
    };
    const auto level_of = [&](std::string path, std::vector<FileEntry> entries) -> Task<Level> {
        std::vector<std::string> names;
        for (const auto& entry : entries) names.push_back(entry.name);
        auto metadata = co_await metadata_in(call, path + "/", std::move(names), as);
        co_return Level{
            .path = std::move(path), .entries = std::move(entries), .metadata = std::move(metadata)};
    };
    std::vector<EntryInfo> out;
    std::vector<Level> levels;
    auto first = co_await read(request.path);
    if (!first) co_return refuse(first.error());
    levels.push_back(co_await level_of(request.path == "/" ? "" : request.path, *std::move(first)));
    while (!levels.empty()) {
        auto& level = levels.back();
        if (level.next == level.entries.size()) {
            levels.pop_back();
            continue;
        }
        auto entry = std::move(level.entries[level.next++]);
        const std::string path = level.path + "/" + entry.name;
        const bool deeper = entry.kind == FileEntry::Kind::Directory && levels.size() < request.message.depth;
        if (out.size() >= kMostEntries)
            co_return refuse(connect::Status::ResourceExhausted,
                             fmt::format("more than {} entries", kMostEntries));
        auto metadata = std::move(level.metadata[entry.name]);
        out.push_back(co_await entry_info(call, path, std::move(entry), as, std::move(metadata)));
        if (!deeper) continue;
        // One that vanished, or is closed to us, is listed without what it holds.
        if (auto below = co_await read(path)) levels.push_back(co_await level_of(path, *std::move(below)));
    }
    co_return entries_answer(out);
}

Task<FilesystemService::Outcome> FilesystemService::remove(Request& request)
{
    auto& call = request.call;
    const auto gone =
        co_await as_user(call, request.user, request.path, [&](std::string who) -> Task<Status> {
            co_return co_await call.backend.remove_file(
                call.handle, {.path = request.path, .user = std::move(who)}, RemoveTree::Yes);
        });
    if (!gone && gone.error().code != Code::NotFound) co_return refuse(gone.error());
    co_return "{}";
}

Task<std::optional<Failure>> FilesystemService::check_directory(Request& request)
{
    auto& call = request.call;
    const auto there =
        co_await as_user(call, request.user, request.path, [&](std::string who) -> Task<Result<FileEntry>> {
            co_return co_await call.backend.stat_file(call.handle,
                                                      {.path = request.path, .user = std::move(who)});
        });
    if (!there) co_return connect::failure_of(there.error());
    if (there->kind != FileEntry::Kind::Directory)
        co_return Failure{.status = connect::Status::InvalidArgument,
                          .message = fmt::format("path is not a directory: {}", request.path)};
    co_return std::nullopt;
}

/// The first question begins it, as whom the directory may be read: whoever may look at it from above need
/// not. Further questions are his.
Task<Status> FilesystemService::begin_watch(Request& request, Entry::Watcher& watcher, const std::string& id)
{
    co_return co_await as_user(request.call, request.user, request.path,
                               [&](std::string who) -> Task<Status> {
                                   watcher.user = std::move(who);
                                   BERTH_CO_TRY([[maybe_unused]] const auto none,
                                                co_await changes_of(request.call, watcher, id, now()));
                                   co_return Status{};
                               });
}

Task<FilesystemService::Outcome> FilesystemService::create_watcher(Request& request)
{
    auto& call = request.call;
    if (const auto failed = co_await check_directory(request)) co_return std::unexpected(*failed);
    if (call.entry->watchers.size() >= kMostWatchers)
        co_return refuse(connect::Status::ResourceExhausted, "too many watchers");
    const std::string id = "w" + random_hex(10);
    Entry::Watcher watcher{.path = request.path,
                           .user = request.user.name,
                           .recursive = request.message.recursive,
                           .include_entry = request.message.include_entry};
    const auto begun = co_await begin_watch(request, watcher, id);
    if (!begun) co_return refuse(begun.error());
    call.entry->watchers[id] = std::move(watcher);
    co_return watcher_answer(id);
}

Task<FilesystemService::Outcome> FilesystemService::watcher_events(Request& request)
{
    auto& call = request.call;
    const auto at = call.entry->watchers.find(request.message.watcher);
    if (at == call.entry->watchers.end())
        co_return refuse(connect::Status::NotFound, "there is no such watcher");
    Entry::Watcher watcher = at->second;
    const std::string id = at->first;
    const auto changes = co_await further_changes_of(call, watcher, id, now());
    if (!changes) co_return refuse(changes.error());
    if (const auto still = call.entry->watchers.find(id); still != call.entry->watchers.end())
        still->second.gone = still->second.gone || watcher.gone;
    const auto events = co_await events_of(call, watcher, *changes);
    co_return events_answer(events);
}

Task<FilesystemService::Outcome> FilesystemService::remove_watcher(Request& request)
{
    auto& call = request.call;
    if (call.entry->watchers.erase(request.message.watcher) == 0)
        co_return refuse(connect::Status::NotFound, "there is no such watcher");
    const auto gone = co_await call.backend.unwatch(request.message.watcher);
    if (!gone) co_return refuse(gone.error());
    co_return "{}";
}

Task<void> FilesystemService::watch(EnvdCall& call)
{
    auto& exchange = call.exchange;
    auto text = co_await rpc::stream_message(exchange);
    if (!text) co_return;
    const auto timeout = rpc::timeout(exchange.head());
    auto request = co_await read(call, *std::move(text));
    rpc::begin_stream(exchange);
    std::optional<Failure> failed;
    if (!timeout)
        failed = connect::failure_of(timeout.error());
    else if (!request)
        failed = request.error();
    else
        failed = co_await check_directory(*request);
    const std::string id = "s" + random_hex(10);
    const auto entry = call.entry;
    const auto turn = entry->turns;
    std::optional<Entry::Watcher> watcher;
    if (!failed) {
        watcher = Entry::Watcher{.path = request->path,
                                 .user = request->user.name,
                                 .recursive = request->message.recursive,
                                 .include_entry = request->message.include_entry};
        const auto begun = co_await begin_watch(*request, *watcher, id);
        if (!begun) failed = connect::failure_of(begun.error());
    }
    if (failed) {
        co_await rpc::end_stream(exchange, *failed);
        co_return;
    }
    const auto keepalive = rpc::keepalive(exchange.head());
    const auto until = *timeout ? std::optional(now() + **timeout) : std::nullopt;
    auto alive = co_await exchange.write(connect::encode(watch_start()));
    while (alive) {
        const auto wake = until ? std::min(*until, now() + keepalive) : now() + keepalive;
        auto first =
            co_await (further_changes_of(call, *watcher, id, wake) || rpc::interrupted(exchange, entry));
        if (entry->turns != turn) {
            exchange.drop();
            break;
        }
        if (first.index() == 1) break;
        auto& changes = std::get<0>(first);
        if (!changes) {
            co_await rpc::end_stream(exchange, connect::failure_of(changes.error()));
            break;
        }
        std::string out;
        const auto events = co_await events_of(call, *watcher, *changes);
        for (const auto& event : events) out += connect::encode(watch_event(event));
        if (out.empty() && until && now() >= *until) {
            co_await rpc::end_stream(exchange, Failure{.status = connect::Status::DeadlineExceeded,
                                                       .message = "the time for this stream is over"});
            break;
        }
        if (out.empty() && changes->empty()) out = connect::encode(watch_keepalive());
        if (!out.empty()) alive = co_await exchange.write(out);
    }
    (void)co_await call.backend.unwatch(id);
}

} // namespace berth::e2b
