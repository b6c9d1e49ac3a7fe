#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/task.hpp"

namespace berth::http {

/// Something that is done again and again for as long as a server runs. What it works with must live until
/// end() has returned.
class Beat {
public:
    using Work = std::function<Task<void>()>;

    Beat(const boost::asio::any_io_executor& executor, std::chrono::milliseconds every);

    void start(Work work);
    /// Returns when it is not under way any more and will not be again.
    Task<void> end();

private:
    Task<void> go_on(Work work);

    boost::asio::steady_timer timer_;
    std::chrono::milliseconds every_;
    bool over_ = false;
    bool running_ = false;
};

} // namespace berth::http
