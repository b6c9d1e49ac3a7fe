#include "conformance/place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "sys/remove_tree.hpp"

namespace berth::conformance {

namespace {

constexpr std::size_t kThreads = 8; // calls that block must not wait for each other

} // namespace

Result<std::unique_ptr<Place>> Place::make(const BackendRegistry& registry, Options options)
{
    BERTH_CHECK(registry.check(options.backend));
    std::unique_ptr<Place> place(new Place(registry, std::move(options)));
    BERTH_CHECK(make_dirs(place->options_.directory, 0700));
    std::string path = place->options_.directory + "/conformance-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return fail_errno("creating {}", path);
    place->directory_ = path;
    ::setenv(kCanary, "seen", 1); // NOLINT(concurrency-mt-unsafe): before there are threads
    place->pool_ = std::make_unique<BlockingPool>(kThreads);
    BERTH_TRY(place->backend_, place->reopen());
    return place;
}

Place::~Place()
{
    if (!stuck_) {
        if (const auto all = left(); all && !stuck_)
            for (const auto& one : *all) (void)await(backend_->destroy(one));
    }
    if (!stuck_) {
        remove();
        return;
    }
    // Somebody is still inside: its threads use what would be freed here.
    (void)backend_.release();
    (void)pool_.release();
}

void Place::remove() noexcept
{
    backend_.reset();
    pool_.reset();
    if (directory_.empty()) return;
    const UniqueFd parent(::open(options_.directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto gone = sys::remove_tree(parent.get(), directory_.substr(directory_.rfind('/') + 1));
    if (!gone) log::warn(fmt::format("{} is left behind: {}", directory_, gone.error().line()));
}

Result<std::unique_ptr<Backend>> Place::reopen()
{
    return registry_.open(options_.backend, {.state_path = state(), .pool = pool_.get()});
}

Result<std::string> Place::scratch()
{
    std::string path = directory_ + "/" + unused();
    if (::mkdir(path.c_str(), 0700) != 0) return fail_errno("creating {}", path);
    return path;
}

SandboxSpec Place::spec() const
{
    SandboxSpec out;
    out.id = make_sandbox_id(system_clock());
    out.root = options_.root;
    out.user = options_.user;
    out.policy = *policy::preset("sandbox");
    out.policy.limits = {}; // what a backend can limit differs; limits have checks of their own
    return out;
}

Result<SandboxHandle> Place::shared()
{
    if (shared_) {
        const auto found = await(backend_->inspect(*shared_));
        if (found && found->health == Health::Healthy && found->state == State::Running) return *shared_;
    }
    SandboxSpec wanted = spec();
    remember(wanted.id);
    BERTH_TRY(shared_, await(backend_->create(std::move(wanted))));
    return *shared_;
}

Result<std::string> Place::home()
{
    if (!home_.empty()) return home_;
    BERTH_TRY(const auto sandbox, shared());
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"/bin/sh", "-c", "printf %s \"$PWD\""};
    BERTH_CHECK(await(backend_->exec(sandbox, exec)));
    std::string out;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
    BERTH_TRY(const auto outcome, await(backend_->follow(sandbox, exec, std::move(streams))));
    if (!outcome.status.success() || !out.starts_with("/"))
        return fail(Code::Internal, "the working directory of a sandbox could not be learned");
    home_ = out == "/" ? "/tmp" : out;
    return home_;
}

Result<std::string> Place::any_home()
{
    BERTH_TRY(const auto path, home());
    return path.find(shared_->native) == std::string::npos ? path : std::string("/home/user");
}

bool Place::finish(Task<void> task)
{
    auto loop = std::make_unique<boost::asio::io_context>(1);
    auto done = std::make_shared<bool>(false);
    boost::asio::co_spawn(*loop, std::move(task), [done](const std::exception_ptr& thrown) {
        if (thrown) std::rethrow_exception(thrown);
        *done = true;
    });
    loop->run_for(options_.patience);
    if (*done) return true;
    stuck_ = true;
    (void)loop.release(); // a thread of the pool may still answer to it
    return false;
}

Result<std::vector<SandboxHandle>> Place::left()
{
    if (!backend_ || made_.empty()) return std::vector<SandboxHandle>{};
    BERTH_TRY(const auto all, await(backend_->scan()));
    std::vector<SandboxHandle> out;
    for (const auto& found : all)
        if (made_.contains(found.sandbox.sandbox)) out.push_back(found.sandbox);
    return out;
}

} // namespace berth::conformance
