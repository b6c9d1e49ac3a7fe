#include "server/sweeping.hpp"

#include "base/log.hpp"
#include "base/strings.hpp"

namespace berth::server {

namespace {

using namespace std::chrono_literals;

constexpr auto kDeadlines = 2s;
constexpr auto kAll = 60s;

} // namespace

Sweeping::Sweeping(Lifecycle& lifecycle, const boost::asio::any_io_executor& executor)
    : lifecycle_(lifecycle), beat_(executor, kDeadlines)
{
}

void Sweeping::start()
{
    beat_.start([this] { return sweep(); });
}

Task<void> Sweeping::end()
{
    over_ = true;
    co_await beat_.end();
}

Task<void> Sweeping::sweep()
{
    const auto now = system_clock().steady();
    const bool all = now >= next_all_;
    if (!all && now < next_deadlines_) co_return;
    if (all) next_all_ = now + kAll;
    const auto report = co_await lifecycle_.sweep(all ? Sweep::All : Sweep::Deadlines, over_);
    // What could not be done now, a full disk or a backend that is away, is not tried every moment.
    next_deadlines_ = tell(report) ? SteadyTime{} : now + kAll;
}

bool Sweeping::tell(const Result<GcReport>& report)
{
    std::set<std::string> failures;
    const auto failure = [&](std::string what, std::string object, std::string why) {
        ++failed_;
        const std::string line = what + object + why;
        if (!told_.contains(line))
            log::warn("a sweep failed", {{"what", what}, {"object", object}, {"why", why}});
        failures.insert(line);
    };
    if (!report) {
        failure("sweep", "", report.error().line());
    } else {
        for (const auto& one : report->actions) {
            if (!one.failed.empty()) {
                failure(one.what, printable(one.object), one.failed);
            } else if (one.what != "leave alone") {
                ++done_;
                log::info("swept", {{"what", one.what}, {"object", printable(one.object)}, {"why", one.why}});
            }
        }
    }
    told_ = std::move(failures);
    return told_.empty();
}

} // namespace berth::server
