#include "server/codex/watches.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace berth::codex {

namespace {

namespace asio = boost::asio;
constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMaxWatches = 256;
constexpr std::size_t kMaxSteps = 2048; ///< directories that are looked for above the paths of one watch

/// `path` becomes the directory it lies in; what it was called there.
std::string take_name(std::string& path)
{
    const auto slash = path.rfind('/');
    std::string name = path.substr(slash + 1);
    path.resize(slash);
    return name;
}

/// As take_name() leaves it: the root is empty.
UniqueFd open_directory(const std::string& path)
{
    return UniqueFd(::open(path.empty() ? "/" : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
}

std::string path_of(int directory)
{
    char buffer[PATH_MAX];
    const auto link = fmt::format("/proc/thread-self/fd/{}", directory);
    const ssize_t n = ::readlink(link.c_str(), &buffer[0], sizeof buffer);
    if (n <= 1 || buffer[0] != '/') return {};
    return {&buffer[0], static_cast<std::size_t>(n)};
}

bool is_there(int directory, const std::string& name)
{
    return ::faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

} // namespace

Watches::Watches(asio::any_io_executor loop, sys::Inotify inotify, Fire fire, Shown shown)
    : inotify_(std::move(inotify)), ready_(loop, ::dup(inotify_.descriptor())), fire_(std::move(fire)),
      shown_(std::move(shown))
{
}

Result<std::shared_ptr<Watches>> Watches::open(asio::any_io_executor loop, Fire fire, Shown shown)
{
    BERTH_TRY(auto inotify, sys::Inotify::open());
    std::shared_ptr<Watches> made(new Watches(loop, std::move(inotify), std::move(fire), std::move(shown)));
    asio::co_spawn(
        loop, [](std::shared_ptr<Watches> self) -> Task<void> { co_await self->run(); }(made),
        asio::detached);
    return made;
}

bool Watches::free(std::int64_t id) const
{
    return watches_.size() < kMaxWatches && std::ranges::find(watches_, id, &Watch::id) == watches_.end();
}

Task<bool> Watches::add(WatchParams params)
{
    const auto self = shared_from_this();
    auto steps = std::ranges::count(params.present, '/');
    for (const auto& path : params.missing) steps += std::ranges::count(path, '/');
    if (!free(params.id) || static_cast<std::size_t>(steps) > kMaxSteps) co_return false;
    if (!co_await shown_(params) || !fire_ || !free(params.id)) co_return false;
    Watch watch{.id = params.id};
    bool good = true;
    for (const auto& path : params.missing) good = good && follow(path, true, watch);
    good = good && follow(params.present, false, watch);
    if (good) watches_.push_back(watch);
    if (!good) drop(watch);
    co_return good;
}

bool Watches::follow(const std::string& path, bool missing, Watch& watch) const
{
    std::string there = path;
    std::string name;
    UniqueFd nearest;
    while (!nearest && !there.empty()) {
        name = take_name(there);
        nearest = open_directory(there);
    }
    const auto number = nearest ? inotify_.add(nearest.get()) : fail(Code::NotFound, "no directory");
    if (!number) return false;
    watch.names[*number].push_back(name);
    // It came before we watched; or it is a link to what is missing, and what is made there shows elsewhere.
    if (missing && is_there(nearest.get(), name)) return false;
    const std::string real = path_of(nearest.get());
    return follow_above(there, watch) && (real == there || follow_above(real, watch));
}

/// A directory that takes the place of one that is followed is another one: its name is followed as well.
bool Watches::follow_above(std::string path, Watch& watch) const
{
    while (!path.empty()) {
        if (++watch.steps > kMaxSteps) return false;
        const std::string name = take_name(path);
        const auto directory = open_directory(path);
        if (!directory) continue;
        const auto number = inotify_.add(directory.get());
        if (number) watch.names[*number].push_back(name);
        // Not every user may read all that is above his own.
        if (!number && number.error().sys.value() != EACCES) return false;
    }
    return true;
}

/// What no other watch needs is not watched any more: the kernel's budget is everybody's.
void Watches::drop(const Watch& gone) const
{
    for (const auto& [number, names] : gone.names)
        if (std::ranges::none_of(watches_, [&](const Watch& other) { return other.names.contains(number); }))
            inotify_.remove(number);
}

Task<void> Watches::run()
{
    for (;;) {
        const auto [error] = co_await ready_.async_wait(asio::posix::descriptor_base::wait_read, as_value);
        if (error) co_return;
        const auto events = inotify_.read();
        if (!events) co_return;
        std::vector<Watch> spent;
        for (const auto& event : *events) {
            std::erase_if(watches_, [&](const Watch& watch) {
                const auto at = watch.names.find(event.watch);
                const bool lost = event.kind == sys::DirectoryEvent::Kind::Overflow;
                const bool hit =
                    at != watch.names.end() &&
                    (event.name.empty() || std::ranges::find(at->second, event.name) != at->second.end());
                if (lost || hit) spent.push_back(watch);
                return lost || hit;
            });
        }
        for (const auto& watch : spent) {
            drop(watch);
            if (fire_) fire_(watch.id);
        }
    }
}

void Watches::close() noexcept
{
    fire_ = nullptr;
    boost::system::error_code ignored;
    ready_.close(ignored);
}

} // namespace berth::codex
