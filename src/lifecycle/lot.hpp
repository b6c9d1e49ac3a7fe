#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/task.hpp"
#include "core/sandbox_spec.hpp"

namespace berth {

class Lifecycle;

/// Sandboxes of one backend that are made before anybody asks, for as long as a program lives. What was asked
/// for lately is asked for again: of the last wishes, each place goes to the shape (core/parking.hpp) that
/// was asked for most often for each place it has already. So a template that one wish in ten asks for has
/// about a tenth of the places, and one that nobody asks for any more has none. For one thread.
class Lot {
public:
    /// Borrowed; wishes go to it first from now on.
    Lot(Lifecycle& lifecycle, std::string backend, std::size_t places);
    Lot(const Lot&) = delete;
    Lot& operator=(const Lot&) = delete;
    ~Lot();

    /// Unsupported: the backend makes none ahead. Removes what an earlier program left.
    Task<Status> begin();
    /// As if it had been asked for: what is parked before anybody has asked.
    void expect(const SandboxSpec& spec);
    /// The id of a parked one of this shape, which nobody else gets; nothing: there is none. From a snapshot
    /// where that is not empty.
    [[nodiscard]] std::optional<std::string> take(const std::string& backend, const SandboxSpec& spec,
                                                  const std::string& snapshot);
    /// An id that was taken, and for which the backend was never asked: what waits under it goes.
    void give_back(const std::string& id);
    /// The snapshot is gone: nobody can ask for what is made from it.
    void forget(const std::string& snapshot);
    /// Parks what is lacking, removes what is too much.
    Task<void> refill();
    /// Removes them all; nothing is parked after that.
    Task<void> clear();

    struct Counts {
        std::size_t places = 0;
        std::size_t parked = 0;
        std::uint64_t claimed = 0; ///< wishes that got a parked one
        std::uint64_t missed = 0;  ///< wishes that found none
    };
    [[nodiscard]] Counts counts() const noexcept;

private:
    struct Shape {
        SandboxSpec spec;
        std::string snapshot;
        bool operator==(const Shape&) const = default;
    };
    struct Place {
        Shape shape;
        std::string id;
    };
    struct Share {
        Shape shape;
        std::size_t asked = 0;
        std::size_t places = 0;
    };
    void note(Shape shape);
    [[nodiscard]] std::vector<Share> shares() const;
    [[nodiscard]] std::size_t parked(const Shape& shape) const;
    [[nodiscard]] std::optional<Place> take_surplus();
    [[nodiscard]] std::optional<Shape> lacking() const;

    Lifecycle& lifecycle_;
    std::string backend_;
    std::size_t places_;
    std::deque<Shape> asked_; ///< the last wishes, newest last
    std::vector<Place> parked_;
    std::deque<std::string> taken_; ///< the last ids
    std::vector<std::string> returned_;
    std::uint64_t claimed_ = 0;
    std::uint64_t missed_ = 0;
    bool closed_ = false;
};

} // namespace berth
