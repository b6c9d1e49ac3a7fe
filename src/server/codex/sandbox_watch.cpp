#include "server/codex/sandbox_watch.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/ids.hpp"
#include "policy/target.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr std::size_t kMaxWatches = 64;
constexpr auto kRound = 5s;            ///< until it is asked whether somebody has exchanged a directory
constexpr std::size_t kDeepEnough = 2; ///< a backend watches whole trees, and those at the top are everything

/// A directory, and the names in it that are waited for; any of them at any depth of a name is a hint.
using Spots = std::map<std::string, std::set<std::string>>;

class SandboxWatcher final : public Watcher, public std::enable_shared_from_this<SandboxWatcher> {
public:
    SandboxWatcher(asio::any_io_executor loop, Fire fire, Around around)
        : loop_(std::move(loop)), fire_(std::move(fire)), backend_(around.backend), handle_(around.handle),
          spec_(around.spec)
    {
    }

    Task<bool> add(WatchParams params) override
    {
        const auto self = shared_from_this();
        if (!fire_ || live_.size() >= kMaxWatches || !live_.insert(params.id).second) co_return false;
        Looker looker({backend_, handle_, spec_});
        Spots spots;
        bool good = true;
        for (const auto& path : params.missing) good = good && co_await place(looker, path, true, spots);
        good = good && co_await place(looker, params.present, false, spots);
        std::vector<std::string> begun;
        for (auto spot = spots.begin(); good && spot != spots.end(); ++spot) {
            begun.push_back("codex-" + random_hex(8));
            good = (co_await watch(begun.back(), spot->first, system_clock().steady())).has_value();
        }
        // What came before that was not seen by it.
        good = good && !co_await any_there(params.missing);
        if (!good) {
            live_.erase(params.id);
            for (auto& name : begun) (void)co_await backend_.unwatch(std::move(name));
            co_return false;
        }
        auto name = begun.begin();
        for (const auto& [directory, names] : spots)
            asio::co_spawn(loop_, follow(self, {params.id, *name++, directory, names, params.missing}),
                           asio::detached);
        co_return true;
    }

    void close() noexcept override
    {
        fire_ = nullptr;
        live_.clear();
    }

private:
    /// The nearest directory above `path` that is there.
    Task<bool> place(Looker& looker, std::string path, bool missing, Spots& spots)
    {
        const auto seen = co_await looker.look(path);
        if (!seen || (missing && !seen->missing)) co_return false;
        std::string at = seen->real;
        for (;;) {
            const auto slash = at.rfind('/');
            const std::string name = at.substr(slash + 1);
            at.resize(slash == std::string::npos ? 0 : slash);
            if (policy::components(at).size() < kDeepEnough) co_return false;
            const auto there = co_await looker.entry(at);
            if (!there) co_return false;
            if (!*there) continue;
            spots[at].insert(name);
            co_return true;
        }
    }

    Task<Result<std::vector<FileChange>>> watch(std::string name, std::string directory, SteadyTime until)
    {
        co_return co_await backend_.watch(handle_, name, {.path = directory, .user = {}}, until);
    }

    struct Followed {
        std::int64_t id;
        std::string watch;
        std::string directory;
        std::set<std::string> names;
        std::vector<std::string> missing; ///< of all of the client's watch
    };

    static Task<void> follow(std::shared_ptr<SandboxWatcher> self, Followed what)
    {
        while (self->fire_ && self->live_.contains(what.id)) {
            const auto changes =
                co_await self->watch(what.watch, what.directory, system_clock().steady() + kRound);
            if (!changes) break;
            bool hit = std::ranges::any_of(*changes, [&](const FileChange& change) {
                return change.kind == FileChange::Kind::Overflow ||
                       what.names.contains(change.path.substr(0, change.path.find('/')));
            });
            // Another directory may have taken the place of the one that is watched, without a word there.
            if (changes->empty()) hit = co_await self->any_there(what.missing);
            if (!hit) continue;
            if (self->live_.erase(what.id) > 0 && self->fire_) self->fire_(what.id);
            break;
        }
        (void)co_await self->backend_.unwatch(what.watch);
    }

    /// What cannot be looked at may be there.
    Task<bool> any_there(const std::vector<std::string>& paths)
    {
        Looker looker({backend_, handle_, spec_});
        for (const auto& path : paths) {
            const auto seen = co_await looker.look(path);
            if (!seen || !seen->missing) co_return true;
        }
        co_return false;
    }

    asio::any_io_executor loop_;
    Fire fire_;
    Backend& backend_;
    SandboxHandle handle_;
    SandboxSpec spec_;
    std::set<std::int64_t> live_; ///< not spent yet
};

} // namespace

std::shared_ptr<Watcher> watch_sandbox(asio::any_io_executor loop, Fire fire, Around around)
{
    return std::make_shared<SandboxWatcher>(std::move(loop), std::move(fire), around);
}

} // namespace berth::codex
