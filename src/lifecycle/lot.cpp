#include "lifecycle/lot.hpp"

#include <algorithm>
#include <utility>

#include "base/io.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "core/parking.hpp"
#include "lifecycle/lifecycle.hpp"

namespace berth {

namespace {

constexpr std::size_t kRemembered = 32;
constexpr std::size_t kTaken = 1024;                ///< more wishes than can be under way at once
constexpr std::int64_t kMemoryLeftKib = 256 * 1024; ///< with less than that nothing is made ahead

bool memory_is_short()
{
    const auto text = read_file("/proc/meminfo");
    constexpr std::string_view name = "MemAvailable:";
    const auto at = text ? text->find(name) : std::string::npos;
    if (at == std::string::npos) return false;
    const auto digits = text->find_first_not_of(' ', at + name.size());
    const auto kib = parse_int(text->substr(digits, text->find(' ', digits) - digits), 0,
                               std::int64_t{1} << 50, "MemAvailable");
    return kib && *kib < kMemoryLeftKib;
}

} // namespace

Lot::Lot(Lifecycle& lifecycle, std::string backend, std::size_t places)
    : lifecycle_(lifecycle), backend_(std::move(backend)), places_(places)
{
    lifecycle_.claim_from(this);
}

Lot::~Lot() { lifecycle_.claim_from(nullptr); }

Task<Status> Lot::begin() { co_return co_await lifecycle_.clear_parked(backend_); }

void Lot::expect(const SandboxSpec& spec)
{
    if (auto shape = shape_of(spec)) note({.spec = *std::move(shape), .snapshot = {}});
}

void Lot::note(Shape shape)
{
    asked_.push_back(std::move(shape));
    if (asked_.size() > kRemembered) asked_.pop_front();
}

std::optional<std::string> Lot::take(const std::string& backend, const SandboxSpec& spec,
                                     const std::string& snapshot)
{
    if (backend != backend_ || closed_) return std::nullopt;
    auto fits = shape_of(spec);
    if (!fits) return std::nullopt;
    Shape shape{.spec = *std::move(fits), .snapshot = snapshot};
    const auto at = std::ranges::find(parked_, shape, &Place::shape);
    std::optional<std::string> id;
    if (at != parked_.end()) {
        id = std::move(at->id);
        parked_.erase(at);
    }
    if (id) {
        taken_.push_back(*id);
        if (taken_.size() > kTaken) taken_.pop_front();
    }
    ++(id ? claimed_ : missed_);
    note(std::move(shape));
    return id;
}

void Lot::give_back(const std::string& id)
{
    if (std::erase(taken_, id) != 0) returned_.push_back(id);
}

void Lot::forget(const std::string& snapshot)
{
    std::erase_if(asked_, [&](const Shape& shape) { return shape.snapshot == snapshot; });
}

std::vector<Lot::Share> Lot::shares() const
{
    std::vector<Share> out;
    for (const auto& shape : asked_) {
        const auto at = std::ranges::find(out, shape, &Share::shape);
        if (at == out.end())
            out.push_back({.shape = shape, .asked = 1});
        else
            ++at->asked;
    }
    if (out.empty()) return out;
    for (std::size_t i = 0; i < places_; ++i) {
        const auto per_place = [](const Share& share) {
            return static_cast<double>(share.asked) / static_cast<double>(share.places + 1);
        };
        ++std::ranges::max_element(out, {}, per_place)->places;
    }
    return out;
}

std::size_t Lot::parked(const Shape& shape) const
{
    return static_cast<std::size_t>(std::ranges::count(parked_, shape, &Place::shape));
}

std::optional<Lot::Place> Lot::take_surplus()
{
    const auto all = shares();
    for (auto at = parked_.begin(); at != parked_.end(); ++at) {
        const auto share = std::ranges::find(all, at->shape, &Share::shape);
        if (share != all.end() && parked(at->shape) <= share->places) continue;
        Place place = std::move(*at);
        parked_.erase(at);
        return place;
    }
    return std::nullopt;
}

std::optional<Lot::Shape> Lot::lacking() const
{
    for (const auto& share : shares())
        if (parked(share.shape) < share.places) return share.shape;
    return std::nullopt;
}

Task<void> Lot::refill()
{
    for (auto& id : std::exchange(returned_, {})) (void)co_await lifecycle_.unpark(backend_, std::move(id));
    while (auto place = take_surplus()) (void)co_await lifecycle_.unpark(backend_, std::move(place->id));
    for (auto shape = lacking(); shape && !closed_; shape = lacking()) {
        if (memory_is_short()) co_return;
        auto id = co_await lifecycle_.park(backend_, shape->spec, shape->snapshot);
        if (!id) {
            // Whoever asks for it will be told why, and then it is tried again.
            log::warn("a sandbox could not be made ahead", {{.name = "why", .value = id.error().line()}});
            std::erase(asked_, *shape);
            continue;
        }
        parked_.push_back({.shape = *std::move(shape), .id = *std::move(id)});
    }
}

Task<void> Lot::clear()
{
    closed_ = true;
    for (auto& id : std::exchange(returned_, {})) (void)co_await lifecycle_.unpark(backend_, std::move(id));
    for (auto& place : std::exchange(parked_, {}))
        (void)co_await lifecycle_.unpark(backend_, std::move(place.id));
}

Lot::Counts Lot::counts() const noexcept
{
    return {.places = places_, .parked = parked_.size(), .claimed = claimed_, .missed = missed_};
}

} // namespace berth
