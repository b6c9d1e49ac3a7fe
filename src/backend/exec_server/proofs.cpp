#include "backend/exec_server/proofs.hpp"

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;

constexpr auto kHeld = 1h;
constexpr auto kNotHeld = 1min;

std::string file_of(const std::string& key) { return ".proved-" + key; }

std::chrono::seconds in_seconds(WallTime time)
{
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch());
}

} // namespace

std::optional<Status> Proofs::known(const std::string& key)
{
    const std::scoped_lock lock(mutex_);
    const auto found = outcomes_.find(key);
    if (found == outcomes_.end()) return std::nullopt;
    if (clock_.steady() < found->second.until) return found->second.status;
    outcomes_.erase(found);
    return std::nullopt;
}

void Proofs::recall(const std::string& key)
{
    if (known(key)) return;
    const auto directory = state_.directory();
    if (!directory) return;
    const auto text = read_file_at(directory->get(), file_of(key), 64_B);
    if (!text) return;
    const auto at = parse_int(*text, 0, INT64_MAX, "time of a proof");
    if (!at) return;
    const auto age = in_seconds(clock_.now()) - std::chrono::seconds(*at);
    // One from the future is of another clock.
    if (age < 0s || age > kHeld) return;
    const std::scoped_lock lock(mutex_);
    outcomes_.try_emplace(key, Outcome{.status = {}, .until = clock_.steady() + (kHeld - age)});
}

bool Proofs::begin(const std::string& key)
{
    const std::scoped_lock lock(mutex_);
    return under_way_.insert(key).second;
}

void Proofs::end(const std::string& key, const std::optional<Status>& outcome)
{
    const std::scoped_lock lock(mutex_);
    under_way_.erase(key);
    if (!outcome || (!*outcome && outcome->error().code != Code::Unsupported)) return;
    // One who only waited for somebody else's trial has found out nothing.
    outcomes_.try_emplace(
        key, Outcome{.status = *outcome,
                     .until = clock_.steady() + (*outcome ? std::chrono::minutes(kHeld) : kNotHeld)});
}

void Proofs::note(const std::string& key) const
{
    const auto directory = state_.directory();
    if (directory)
        (void)replace_file_at(directory->get(), file_of(key),
                              std::to_string(in_seconds(clock_.now()).count()));
}

} // namespace berth::exec_server
