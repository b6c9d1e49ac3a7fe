#pragma once

#include "base/json.hpp"
#include "core/record.hpp"
#include "core/tells_borrowed.hpp"
#include "lifecycle/lifecycle.hpp"

namespace berth {

/// The label of a borrowed sandbox: "TYPE:CONTAINER", which its backend may not know any more once it is let
/// go.
inline constexpr std::string_view kAttachmentLabel = "berth.attachment";

inline constexpr std::string_view kNoRules = "borrowed: berth holds no rules of it";

/// The key of an instance that somebody else made.
[[nodiscard]] inline std::string borrowed_key(std::string_view backend, std::string_view native)
{
    return fmt::format("attached:{}:{}", backend, native);
}

/// Also of one that is lost, of which the state does not tell.
[[nodiscard]] inline bool is_borrowed(const SandboxRecord& record)
{
    return record.key == borrowed_key(record.backend, record.native);
}

/// The record says what its backend says of the instance, not what a sandbox of ours would have.
inline void describe_borrowed(SandboxRecord& record, const Borrowed& is)
{
    record.spec.root = {.kind = Template::Kind::Image, .path = is.image, .tag = {}};
    record.spec.labels[std::string(kAttachmentLabel)] = fmt::format("{}:{}", is.type, is.container);
}

/// What was attached; null: the sandbox is our own, or an older berth attached it.
[[nodiscard]] inline json::Value attachment_of(const SandboxRecord& record)
{
    const auto label = record.spec.labels.find(std::string(kAttachmentLabel));
    if (!is_borrowed(record) || label == record.spec.labels.end()) return nullptr;
    const auto colon = label->second.find(':');
    json::Object out;
    out["type"] = label->second.substr(0, colon);
    out["container_id"] = colon == std::string::npos ? "" : label->second.substr(colon + 1);
    return out;
}

/// One that its backend has `seen` paused runs on, and stays attached; Conflict: it is stopped.
[[nodiscard]] Task<Status> thaw_borrowed(Lifecycle& lifecycle, BlockingPool& pool, SandboxRecord record,
                                         State seen);

} // namespace berth
