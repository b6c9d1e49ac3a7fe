#include "lifecycle/snapshot_keeping.hpp"

#include "base/strings.hpp"

namespace berth {

/// Each of the two options keeps what it says, whatever the other one says.
std::string SnapshotKeeping::too_many_or_old(const SnapshotRecord& snapshot) const
{
    const auto kept = kept_.find(snapshot.sandbox);
    const std::size_t before = kept == kept_.end() ? 0 : kept->second;
    const bool last = wish_.keep_last && before < *wish_.keep_last;
    const bool young = wish_.keep_within && now_ < snapshot.created + *wish_.keep_within;
    if (last || young) return {};
    if (wish_.keep_within && !wish_.keep_last) return "older than " + show(*wish_.keep_within);
    if (!wish_.keep_last) return {};
    return fmt::format("more than the last {}{}", *wish_.keep_last,
                       wish_.keep_within ? " and older than " + show(*wish_.keep_within) : "");
}

std::string SnapshotKeeping::too_large(const SnapshotRecord& snapshot)
{
    if (!wish_.keep_bytes) return {};
    full_ = full_ || total_ + snapshot.bytes > wish_.keep_bytes->count;
    if (!full_) return {};
    return fmt::format("all together would be more than {} bytes", wish_.keep_bytes->count);
}

std::string SnapshotKeeping::why_not(const SnapshotRecord& snapshot, bool needed)
{
    const bool none_wished = wish_.keep_last && *wish_.keep_last == 0;
    std::string why = too_many_or_old(snapshot);
    if (why.empty()) why = too_large(snapshot);
    auto& kept = kept_[snapshot.sandbox];
    if (needed && !none_wished) why.clear();
    if (!why.empty()) return why;
    ++kept;
    total_ += snapshot.bytes;
    return why;
}

} // namespace berth
