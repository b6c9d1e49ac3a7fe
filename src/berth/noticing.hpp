#pragma once

#include <memory>
#include <string>
#include <thread>

#include "berth/berth.hpp"

namespace berth {

/// What others do to instances behind our back is in the records and in the ledger as soon as a backend tells
/// of it: a thread that listens for as long as this lives. Without one it is noticed when somebody next
/// looks.
class Noticing {
public:
    /// Opens the state directory once more, so that nobody waits for it. One that cannot be opened is not
    /// listened for.
    explicit Noticing(std::string data);
    Noticing(const Noticing&) = delete;
    Noticing& operator=(const Noticing&) = delete;
    /// Within a second or two.
    ~Noticing() = default;

private:
    std::jthread thread_;
};

} // namespace berth
