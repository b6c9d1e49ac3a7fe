// A list of steps as bytes, for the spawner process. Both ends are our own program, but the bytes
// are checked all the same: a step that points outside of its arena must not reach the interpreter.

#include <cstring>

#include "sys/step_list.hpp"

namespace berth::sys {

namespace {

constexpr std::uint64_t kMagic = 0x31'73'70'65'74'73'62ull; // "bsteps1"

struct Head {
    std::uint64_t magic, steps, blocks, slots, vectors, arena;
};

template <class T> void append(std::string& out, const T& value)
{
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Cursor {
public:
    explicit Cursor(std::string_view bytes) : rest_(bytes) {}
    template <class T> bool take(T& value)
    {
        if (rest_.size() < sizeof value) return false;
        std::memcpy(&value, rest_.data(), sizeof value);
        rest_.remove_prefix(sizeof value);
        return true;
    }
    bool take(std::string& out, std::uint64_t size)
    {
        if (rest_.size() < size) return false;
        out.assign(rest_.substr(0, size));
        rest_.remove_prefix(size);
        return true;
    }
    [[nodiscard]] bool at_end() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

/// What the interpreter takes on trust in this step and must not: a range of the arena, the number of
/// a block, a list of words or a slot. Null when all is well.
const char* fault_of(const Step& step, const StepList& list)
{
    const std::uint64_t arena = list.arena().size();
    const auto slot_ok = [&](std::int32_t slot) {
        return slot >= kNone && slot < static_cast<std::int64_t>(list.slots().size());
    };
    const auto range_ok = [&](std::uint64_t at, std::uint64_t size) {
        return size == 0 || (at != 0 && at <= arena && size <= arena - at);
    };
    const auto words_ok = [&](std::uint64_t vector) { return vector < list.vectors().size(); };

    if (!slot_ok(step.fd) || !slot_ok(step.fd2) || !slot_ok(step.out)) return "slot out of range";
    for (const auto offset : step.text)
        if (offset >= arena) return "text out of range";
    if (step.label >= arena) return "label out of range";
    switch (step.op) {
    case Op::WriteFd:
    case Op::Hostname:
    case Op::Seccomp: return range_ok(step.text[0], step.size) ? nullptr : "bytes out of range";
    case Op::WriteFile:
    case Op::MakeFile:
        if (step.text[0] == 0) return "no path";
        return range_ok(step.text[1], step.size) ? nullptr : "bytes out of range";
    case Op::EnterBeside: return step.fd == kNone || step.fd2 == kNone ? "no descriptor" : nullptr;
    case Op::DeathSignal:
    case Op::LandlockPath: return step.fd == kNone ? "no descriptor" : nullptr;
    case Op::MakeBeneath: return step.text[0] == 0 ? "no path" : nullptr;
    case Op::Clone: return step.b < list.blocks().size() ? nullptr : "block out of range";
    case Op::Exec: return words_ok(step.a) && words_ok(step.b) ? nullptr : "words out of range";
    case Op::ExecPath:
        return words_ok(step.a) && words_ok(step.b) && words_ok(step.c) ? nullptr : "words out of range";
    case Op::Send: {
        if (!range_ok(step.text[0], step.size)) return "bytes out of range";
        const bool patched = step.a != ~0ull;
        if (patched && (step.size < sizeof(std::int32_t) || step.a > step.size - sizeof(std::int32_t)))
            return "place of the pid out of range";
        if (step.b > list.slots().size() || !range_ok(step.text[1], step.b * sizeof(std::int32_t)))
            return "slots out of range";
        for (std::uint64_t i = 0; i < step.b; ++i) {
            std::int32_t slot = 0;
            std::memcpy(&slot, list.arena().data() + step.text[1] + i * sizeof slot, sizeof slot);
            if (slot < 0 || !slot_ok(slot)) return "slot out of range";
        }
        return nullptr;
    }
    default: return step.op <= Op::ExecPath ? nullptr : "unknown step";
    }
}

} // namespace

std::vector<int> StepList::travelling() const
{
    std::vector<int> fds;
    for (const int fd : slots_)
        if (fd >= 0) fds.push_back(fd);
    return fds;
}

std::string StepList::encode() const
{
    std::string out;
    append(out, Head{.magic = kMagic,
                     .steps = steps_.size(),
                     .blocks = block_starts_.size(),
                     .slots = slots_.size(),
                     .vectors = vectors_.size(),
                     .arena = arena_.size()});
    for (const Step& step : steps_) append(out, step);
    for (const auto start : block_starts_) append(out, start);
    for (const int fd : slots_) append(out, static_cast<std::int32_t>(fd >= 0 ? 1 : 0));
    for (const auto& vector : vectors_) {
        append(out, static_cast<std::uint64_t>(vector.size()));
        for (const auto offset : vector) append(out, offset);
    }
    out += arena_;
    return out;
}

Result<StepList> StepList::decode(std::string_view bytes, std::vector<UniqueFd> fds)
{
    const auto bad = [](const char* what) { return fail(Code::Invalid, "list of steps: {}", what); };
    Cursor in(bytes);
    Head head{};
    if (!in.take(head) || head.magic != kMagic) return bad("wrong header");
    if (head.steps > 4096 || head.blocks == 0 || head.blocks > 8 || head.slots > 1024 || head.vectors > 16)
        return bad("too large");
    StepList list;
    list.steps_.resize(head.steps);
    for (auto& step : list.steps_)
        if (!in.take(step)) return bad("cut off");
    list.block_starts_.resize(head.blocks);
    std::uint32_t last = 0;
    for (auto& start : list.block_starts_) {
        if (!in.take(start) || start > head.steps || start < last) return bad("block out of range");
        last = start;
    }
    if (list.block_starts_.front() != 0) return bad("block out of range");
    std::size_t next = 0;
    for (std::uint64_t i = 0; i < head.slots; ++i) {
        std::int32_t present = 0;
        if (!in.take(present)) return bad("cut off");
        if (present == 0)
            list.empty();
        else if (next >= fds.size())
            return bad("a descriptor is missing");
        else
            list.own(std::move(fds[next++]));
    }
    for (std::uint64_t i = 0; i < head.vectors; ++i) {
        std::uint64_t count = 0;
        if (!in.take(count) || count > (1u << 20)) return bad("argument list too long");
        std::vector<std::uint32_t> offsets(count);
        for (auto& offset : offsets)
            if (!in.take(offset) || offset >= head.arena) return bad("argument out of range");
        list.vectors_.push_back(std::move(offsets));
    }
    if (!in.take(list.arena_, head.arena) || !in.at_end()) return bad("wrong length");
    if (list.arena_.empty() || list.arena_.back() != '\0') return bad("arena does not end");
    for (const Step& step : list.steps_)
        if (const char* fault = fault_of(step, list)) return bad(fault);
    return list;
}

} // namespace berth::sys
