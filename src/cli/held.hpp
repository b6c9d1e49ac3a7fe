#pragma once

#include <string>
#include <vector>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "berth/berth.hpp"

namespace berth::cli {

/// The sandboxes that a verb works with: made usable, and not idle for as long as it works.
class Held {
public:
    explicit Held(Berth& berth) : berth_(&berth) {}

    /// How it was come by is for the caller to tell.
    [[nodiscard]] Result<Acquired> use(const std::string& ref);

    template <class T> [[nodiscard]] T run(Task<T> work) { return berth_->run(beside(std::move(work))); }

    [[nodiscard]] Berth& berth() const { return *berth_; }

private:
    template <class T> Task<T> beside(Task<T> work)
    {
        using namespace boost::asio::experimental::awaitable_operators;
        auto first = co_await (std::move(work) || berth_->lifecycle().hold(sandboxes_));
        co_return std::get<0>(std::move(first)); // to hold them has no end
    }

    Berth* berth_;
    std::vector<std::string> sandboxes_;
};

} // namespace berth::cli
