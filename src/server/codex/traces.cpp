#include "server/codex/traces.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/encoding.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"

namespace berth::codex {

namespace {

constexpr std::string_view kSuffix = ".trace";
constexpr auto kBreath = std::chrono::milliseconds{1};

std::string place_line(const std::string& sandbox, const std::string& name)
{
    return fmt::format("place {} {}", sandbox, base64_encode(name)); // a name may hold any byte
}

/// A file that nobody else has locked; empty: somebody has, or it is gone.
UniqueFd lock_file(const std::string& path, int flags)
{
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
    struct stat st{};
    if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return {};
    if (::fstat(file.get(), &st) != 0 || st.st_nlink == 0) return {}; // removed before it was ours
    return file;
}

struct Left {
    std::vector<std::string> keys;
    std::vector<std::pair<std::string, std::string>> execs;  ///< sandbox, exec
    std::vector<std::pair<std::string, std::string>> places; ///< sandbox, name
};

Left read_left(std::string_view text)
{
    Left out;
    for (const auto& line : split(text, '\n')) {
        const auto words = split(line, ' ');
        if (words.size() == 2 && words[0] == "key") out.keys.push_back(words[1]);
        if (words.size() != 3 || !is_id(words[1], "sbx_")) continue; // cut off in the middle of a write
        if (words[0] == "exec") out.execs.emplace_back(words[1], words[2]);
        if (words[0] != "place") continue;
        if (auto name = base64_decode(words[2])) out.places.emplace_back(words[1], *std::move(name));
    }
    return out;
}

} // namespace

Result<std::shared_ptr<Traces>> Traces::open(const std::string& data)
{
    const std::string directory = data + "/codex";
    BERTH_CHECK(make_dirs(directory, 0700));
    constexpr int tries = 16; // somebody who sweeps may take it for a dead one's before it is locked
    for (int i = 0; i < tries; ++i) {
        std::string name = random_hex(16);
        auto file = lock_file(fmt::format("{}/{}{}", directory, name, kSuffix), O_CREAT | O_EXCL);
        if (file) return std::shared_ptr<Traces>(new Traces(directory, std::move(name), std::move(file)));
    }
    return fail(Code::Unavailable, "no file of our own can be made in {}", directory);
}

Traces::~Traces()
{
    if (lines_.empty()) ::unlink(fmt::format("{}/{}{}", directory_, name_, kSuffix).c_str());
}

Status Traces::add(const std::string& line)
{
    if (lines_.empty() && ::ftruncate(file_.get(), 0) == 0) ::lseek(file_.get(), 0, SEEK_SET);
    lines_.insert(line);
    auto written = write_all(file_.get(), line + "\n");
    if (!written) remove(line);
    return written;
}

/// What is over may stay in the file: it is gone when somebody looks for it.
void Traces::remove(const std::string& line)
{
    if (const auto at = lines_.find(line); at != lines_.end()) lines_.erase(at);
}

Status Traces::begin_exec(const std::string& sandbox, const std::string& exec)
{
    return add(fmt::format("exec {} {}", sandbox, exec));
}

void Traces::end_exec(const std::string& exec)
{
    std::erase_if(lines_, [&](const std::string& line) { return line.ends_with(" " + exec); });
}

Result<std::string> Traces::begin_sandbox()
{
    std::string key = fmt::format("codex:{}:{}", name_, ++sandboxes_);
    BERTH_CHECK(add("key " + key));
    return key;
}

void Traces::end_sandbox(const std::string& key) { remove("key " + key); }

bool Traces::is_place(const std::string& sandbox, const std::string& name) const
{
    return lines_.contains(place_line(sandbox, name));
}

Task<Status> Traces::hold(std::string sandbox, std::vector<std::string> names)
{
    if (names.empty()) co_return Status{};
    boost::asio::steady_timer breath(co_await boost::asio::this_coro::executor);
    const auto goes = [&](const std::string& name) { return removing_.contains(place_line(sandbox, name)); };
    while (std::ranges::any_of(names, goes)) {
        breath.expires_after(kBreath);
        (void)co_await breath.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    auto& held = held_[sandbox];
    if (!held.lock) {
        const std::string path = fmt::format("{}/{}.held", directory_, sandbox);
        held.lock.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!held.lock || ::flock(held.lock.get(), LOCK_SH) != 0) co_return fail_errno("locking {}", path);
    }
    for (const auto& name : names) {
        BERTH_CO_CHECK(add(place_line(sandbox, name)));
        ++held.names[name];
    }
    co_return Status{};
}

std::vector<std::string> Traces::release(const std::string& sandbox, const std::vector<std::string>& names)
{
    std::vector<std::string> out;
    const auto at = held_.find(sandbox);
    if (at == held_.end()) return out;
    auto& held = at->second;
    for (const auto& name : names) {
        const auto one = held.names.find(name);
        if (one == held.names.end()) continue;
        remove(place_line(sandbox, name));
        if (--one->second == 0) {
            lines_.insert(place_line(sandbox, name)); // until it is gone
            held.names.erase(one);
            out.push_back(name);
        }
    }
    if (!held.names.empty()) return out;
    // Another server's command may rely on what we made: then it stays for whoever sweeps.
    const bool alone = ::flock(held.lock.get(), LOCK_EX | LOCK_NB) == 0;
    if (alone) ::unlink(fmt::format("{}/{}.held", directory_, sandbox).c_str());
    if (!alone) out.clear();
    held_.erase(at);
    return out;
}

Task<void> Traces::remove_place(Backend& backend, SandboxHandle sandbox, std::string name)
{
    const std::string line = place_line(sandbox.sandbox, name);
    const auto held = held_.find(sandbox.sandbox);
    const bool again = held != held_.end() && held->second.names.contains(name);
    if (again || !removing_.insert(line).second) {
        remove(line);
        co_return;
    }
    const ScopeExit done([&] {
        removing_.erase(line);
        remove(line);
    });
    // Only a directory, and only an empty one: what somebody put there stays.
    const auto found = co_await backend.stat_file(sandbox, {.path = name, .user = {}, .follow = false});
    if (found && found->kind == FileEntry::Kind::Directory)
        (void)co_await backend.remove_file(sandbox, {.path = name, .user = {}}, RemoveTree::No);
}

Task<void> Traces::sweep(Lifecycle& lifecycle, BlockingPool& pool)
{
    const auto names = co_await pool.call([&]() -> std::vector<std::string> {
        const UniqueFd all(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        auto found = all ? list_names(all.get()) : fail_errno("reading {}", directory_);
        return found ? *std::move(found) : std::vector<std::string>{};
    });
    for (const auto& name : names) {
        if (!name.ends_with(kSuffix) || name == name_ + std::string(kSuffix)) continue;
        const std::string path = fmt::format("{}/{}", directory_, name);
        const auto file = lock_file(path, 0);
        if (!file) continue; // its server lives
        const auto text = read_to_end(file.get(), 64_MiB, path);
        if (!text) continue;
        const auto left = read_left(*text);
        for (const auto& key : left.keys)
            if (const auto record = co_await lifecycle.find(key); record && record->key == key)
                (void)co_await lifecycle.destroy(record->id());
        for (const auto& [sandbox, exec] : left.execs) {
            const auto record = co_await lifecycle.find(sandbox);
            if (!record || record->state != State::Running) continue;
            const auto where = co_await lifecycle.backend(record->backend);
            if (where) (void)co_await (*where)->kill(Lifecycle::handle(*record), exec);
        }
        for (const auto& [sandbox, place] : left.places) {
            const auto record = co_await lifecycle.find(sandbox);
            if (!record || record->state != State::Running) continue;
            const auto where = co_await lifecycle.backend(record->backend);
            if (where) co_await remove_place(**where, Lifecycle::handle(*record), place);
        }
        log::info("what a server left in sandboxes has ended",
                  {{"sandboxes", std::to_string(left.keys.size())},
                   {"commands", std::to_string(left.execs.size())}});
        ::unlink(path.c_str());
    }
}

} // namespace berth::codex
