#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"

namespace berth::own {

/// The sandboxes that requests work with now, and since when.
class InUse {
    using Since = std::multimap<std::string, SteadyTime>;

public:
    /// One request, from when its sandbox is known until it is answered.
    class Hold {
    public:
        Hold(std::shared_ptr<Since> all, const std::string& sandbox)
            : all_(std::move(all)), at_(all_->emplace(sandbox, system_clock().steady()))
        {
        }
        Hold(Hold&& other) noexcept : all_(std::move(other.all_)), at_(other.at_) {}
        Hold& operator=(Hold&&) = delete;
        ~Hold()
        {
            if (all_) all_->erase(at_);
        }

    private:
        std::shared_ptr<Since> all_; ///< a request may outlive whoever answered it
        Since::iterator at_;
    };

    [[nodiscard]] Hold hold(const std::string& sandbox) { return {all_, sandbox}; }
    [[nodiscard]] bool empty() const { return all_->empty(); }
    /// Those that are in use since before `then`, each once.
    [[nodiscard]] std::vector<std::string> before(SteadyTime then) const
    {
        std::vector<std::string> out;
        for (const auto& [sandbox, since] : *all_)
            if (since <= then && (out.empty() || out.back() != sandbox)) out.push_back(sandbox);
        return out;
    }

private:
    std::shared_ptr<Since> all_ = std::make_shared<Since>();
};

} // namespace berth::own
