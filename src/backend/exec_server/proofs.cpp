#include "backend/exec_server/proofs.hpp"

#include "base/clock.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;

constexpr auto kNoted = 1h;

std::string file_of(const std::string& key) { return ".proved-" + key; }

std::int64_t now_in_seconds()
{
    return std::chrono::duration_cast<std::chrono::seconds>(system_clock().now().time_since_epoch()).count();
}

} // namespace

std::optional<Status> Proofs::known(const std::string& key)
{
    const std::scoped_lock lock(mutex_);
    const auto found = outcomes_.find(key);
    return found == outcomes_.end() ? std::nullopt : std::optional(found->second);
}

void Proofs::recall(const std::string& key)
{
    if (known(key)) return;
    const auto directory = state_.directory();
    if (!directory) return;
    const auto text = read_file_at(directory->get(), file_of(key), 64_B);
    if (!text) return;
    const auto at = parse_int(*text, 0, INT64_MAX, "time of a proof");
    const auto now = now_in_seconds();
    // One from the future is of another clock.
    if (!at || *at > now || now - *at > std::chrono::seconds(kNoted).count()) return;
    const std::scoped_lock lock(mutex_);
    outcomes_.try_emplace(key, Status{});
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
    if (outcome && (*outcome || outcome->error().code == Code::Unsupported))
        outcomes_.insert_or_assign(key, *outcome);
}

void Proofs::note(const std::string& key) const
{
    const auto directory = state_.directory();
    if (directory) (void)replace_file_at(directory->get(), file_of(key), std::to_string(now_in_seconds()));
}

} // namespace berth::exec_server
