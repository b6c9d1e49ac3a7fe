#pragma once

#include "keeper/wire_messages.hpp"

/// Pure checks of messages, the same code in the keeper, its client and the fuzzers. A message that
/// passed holds what its structure says: lengths, counts, ranges and number of descriptors.
namespace berth::keeper {

/// Copies a structure out of bytes that have no alignment.
template <class T> inline T load(const void* bytes)
{
    T value;
    __builtin_memcpy(&value, bytes, sizeof value);
    return value;
}

/// Descriptors that an EXEC must bring; the body's memfd is the last of them.
constexpr std::uint32_t descriptors_of(const ExecRequest& r)
{
    return (r.flags & kTerminal ? 2u : 3u) + r.group_count + (r.flags & kBodyInMemfd ? 1u : 0u);
}

constexpr std::uint32_t descriptors_of(const AdoptRequest& r)
{
    if (r.flags & kTerminal) return 3u + r.held;
    return (r.flags & kStdin ? 6u : 5u) + r.held;
}

constexpr std::uint32_t descriptors_of(const TimeRequest& r)
{
    return (r.flags & kPauses ? 2u : 0u) + (r.flags & kKillFile ? 1u : 0u);
}

constexpr bool good_time(const TimeRequest& r)
{
    if (r.exec == 0 || r.time == 0 || r.time > kMaxTime || r.reserved != 0) return false;
    return (r.flags & ~kAllTimeFlags) == 0;
}

constexpr bool good_limit(std::uint64_t limit) { return limit >= kMinLogLimit && limit <= kMaxLogLimit; }

constexpr bool good_exec(const ExecRequest& r, std::size_t length, std::uint32_t descriptors)
{
    if (r.exec == 0 || r.argc == 0 || r.reserved != 0 || (r.flags & ~kAllExecFlags)) return false;
    if (r.argc > kMaxWords || r.envc > kMaxWords || r.argc + r.envc > kMaxWords) return false;
    if (!good_limit(r.log_limit) || r.group_count > kMaxGroups) return false;
    if (r.uid == ~0u || r.gid == ~0u) return false; // "leave it" for setresuid(2): never what was meant
    switch (r.group_kind) {
    case GroupKind::None:
        if (r.group_count != 0) return false;
        break;
    case GroupKind::V1Tasks:
    case GroupKind::V2Directory:
        // Of v2 the first is the directory to be born in; v1 limits of a hybrid host may follow.
        if (r.group_count == 0) return false;
        break;
    default: return false;
    }
    if (descriptors != descriptors_of(r)) return false;
    if (r.flags & kBodyInMemfd)
        return length == sizeof r && r.body_length > kMaxInlineBody && r.body_length <= kMaxBody;
    return r.body_length <= kMaxInlineBody && length == sizeof r + r.body_length;
}

/// errno of a message that cannot be obeyed, 0 for a good one. `bytes` has `length` bytes.
inline int check_request(const char* bytes, std::size_t length, std::uint32_t descriptors)
{
    constexpr int kBadMessage = 74, kInvalid = 22;
    if (length < sizeof(Header) || length > kMaxMessage) return kBadMessage;
    const auto header = load<Header>(bytes);
    if (header.length != length) return kBadMessage;
    const auto fixed = [&](std::size_t size, std::uint32_t want) {
        return length == size && descriptors == want ? 0 : kBadMessage;
    };
    switch (static_cast<Type>(header.type)) {
    case Type::Exec:
        if (length < sizeof(ExecRequest)) return kBadMessage;
        return good_exec(load<ExecRequest>(bytes), length, descriptors) ? 0 : kInvalid;
    case Type::Adopt: {
        if (length != sizeof(AdoptRequest)) return kBadMessage;
        const auto r = load<AdoptRequest>(bytes);
        if (r.exec == 0 || r.pid <= 1 || !good_limit(r.log_limit)) return kInvalid;
        if (r.held > kMaxHeld || r.reserved != 0) return kInvalid;
        if (r.flags & ~(kStdin | kTerminal | kNotify | kPace)) return kInvalid;
        return descriptors == descriptors_of(r) ? 0 : kBadMessage;
    }
    case Type::Time: {
        if (length != sizeof(TimeRequest)) return kBadMessage;
        const auto r = load<TimeRequest>(bytes);
        if (!good_time(r)) return kInvalid;
        return descriptors == descriptors_of(r) ? 0 : kBadMessage;
    }
    case Type::List:
    case Type::Ping:
    case Type::Stop: return fixed(sizeof(Header), 0);
    case Type::Follow: return fixed(sizeof(FollowRequest), 1);
    case Type::Signal: {
        if (int bad = fixed(sizeof(SignalRequest), 0)) return bad;
        const auto r = load<SignalRequest>(bytes);
        return r.signal <= 64 && (r.scope == Scope::Process || r.scope == Scope::Group) ? 0 : kInvalid;
    }
    case Type::Stdin:
        if (length < sizeof(InputRequest) || descriptors != 0) return kBadMessage;
        return load<InputRequest>(bytes).write != 0 ? 0 : kInvalid;
    case Type::Eof:
        if (int bad = fixed(sizeof(InputRequest), 0)) return bad;
        return load<InputRequest>(bytes).write != 0 ? 0 : kInvalid;
    case Type::Resize: return fixed(sizeof(ResizeRequest), 0);
    case Type::Dial: {
        if (int bad = fixed(sizeof(DialRequest), 0)) return bad;
        const auto r = load<DialRequest>(bytes);
        return r.port != 0 && (r.family == 4 || r.family == 6) ? 0 : kInvalid;
    }
    default: return kBadMessage;
    }
}

/// Finds the strings of a body: words[0] is the working directory, then argc, then envc, exactly.
/// `words` has room for 1 + argc + envc. False for a body that says something else.
inline bool split_body(const char* body, std::size_t length, std::uint32_t argc, std::uint32_t envc,
                       const char** words)
{
    const std::size_t want = std::size_t{1} + argc + envc;
    std::size_t found = 0;
    for (std::size_t at = 0; at < length;) {
        if (found == want) return false;
        words[found++] = body + at;
        while (at < length && body[at] != '\0') ++at;
        if (at == length) return false; // the last string has no end
        ++at;
    }
    return found == want && (words[0][0] == '\0' || words[0][0] == '/');
}

/// True when an answer has the size and the descriptors of its type. The keeper is pid 1 of
/// something hostile: what it says is bounded before it is read.
inline bool check_reply(const char* bytes, std::size_t length, std::uint32_t descriptors)
{
    if (length < sizeof(Header)) return false;
    const auto header = load<Header>(bytes);
    if (header.length != length) return false;
    switch (static_cast<Type>(header.type)) {
    case Type::Ok: return length == sizeof(Reply) && descriptors <= 1;
    case Type::Err:
        return length == sizeof(Reply) && descriptors == 0 && load<Reply>(bytes).error > 0 &&
               load<Reply>(bytes).error < 4096;
    case Type::Exit:
    case Type::End: return length == sizeof(Reply) && descriptors == 0;
    case Type::Item: {
        if (length < kItemsHead || length > sizeof(ItemsReply) || descriptors != 0) return false;
        std::uint32_t count;
        __builtin_memcpy(&count, bytes + offsetof(ItemsReply, count), sizeof count);
        return count != 0 && count <= kItemsPerMessage && length == kItemsHead + count * sizeof(Item);
    }
    default: return false;
    }
}

} // namespace berth::keeper
