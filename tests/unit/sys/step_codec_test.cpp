#include <fcntl.h>

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sys/step_list.hpp"

namespace berth::sys {
namespace {

using ::testing::HasSubstr;

// The head of the encoding: magic, then the counts of steps, blocks, slots, lists of words, and the arena.
constexpr std::size_t kHead = 6 * sizeof(std::uint64_t);

UniqueFd some_fd() { return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)); }

/// A list with one of each thing that points somewhere.
StepList sample()
{
    StepList list;
    const Slot null = list.own(some_fd());
    list.say("writing").write_fd(null, "bytes");
    list.write_file("/dev/null", "");
    list.send(null, "message.", 4, {null});
    list.clone(0, 1, 0);
    list.exec_path({"/bin/true"}, {"true"}, {});
    list.begin_block();
    list.say("inside").exec(null, {"true"}, {"A=b"});
    return list;
}

std::vector<UniqueFd> fds_of(const StepList& list)
{
    std::vector<UniqueFd> out;
    for (const int fd : list.travelling()) out.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    return out;
}

template <class T> void put(std::string& bytes, std::size_t at, T value)
{
    ASSERT_LE(at + sizeof value, bytes.size());
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

std::size_t step_at(std::size_t index) { return kHead + index * sizeof(Step); }

/// The sample with its step `index` changed, decoded.
template <class F> std::string refusal(std::size_t index, F change)
{
    const StepList list = sample();
    std::string bytes = list.encode();
    Step step{};
    std::memcpy(&step, bytes.data() + step_at(index), sizeof step);
    change(step);
    std::memcpy(bytes.data() + step_at(index), &step, sizeof step);
    const auto decoded = StepList::decode(bytes, fds_of(list));
    if (decoded) return "accepted";
    EXPECT_EQ(decoded.error().code, Code::Invalid);
    return decoded.error().message;
}

TEST(StepCodec, ComesBackAsItWas)
{
    const StepList list = sample();
    const auto decoded = StepList::decode(list.encode(), fds_of(list));
    ASSERT_TRUE(decoded) << decoded.error().line();
    EXPECT_EQ(decoded->encode(), list.encode());
    EXPECT_EQ(decoded->labels(), list.labels());
    EXPECT_EQ(decoded->blocks().size(), 2u);
    EXPECT_EQ(decoded->travelling().size(), 1u);
}

TEST(StepCodec, RefusesEveryLengthButTheRightOne)
{
    const StepList list = sample();
    const std::string bytes = list.encode();
    for (std::size_t size = 0; size < bytes.size(); ++size)
        ASSERT_FALSE(StepList::decode(std::string_view(bytes).substr(0, size), fds_of(list))) << size;
    EXPECT_FALSE(StepList::decode(bytes + '\0', fds_of(list)));
}

TEST(StepCodec, RefusesAMissingDescriptor)
{
    EXPECT_THAT(StepList::decode(sample().encode(), {}).error().message,
                HasSubstr("a descriptor is missing"));
}

TEST(StepCodec, RefusesCountsBeyondReason)
{
    const StepList list = sample();
    for (std::size_t field = 0; field < 6; ++field) {
        std::string bytes = list.encode();
        put(bytes, field * sizeof(std::uint64_t), ~std::uint64_t{0});
        EXPECT_FALSE(StepList::decode(bytes, fds_of(list))) << field;
    }
}

TEST(StepCodec, RefusesSlotsOutOfRange)
{
    for (const std::int32_t slot : {1, 1000, -2}) {
        EXPECT_THAT(refusal(0, [&](Step& s) { s.fd = slot; }), HasSubstr("slot out of range"));
        EXPECT_THAT(refusal(0, [&](Step& s) { s.fd2 = slot; }), HasSubstr("slot out of range"));
        EXPECT_THAT(refusal(0, [&](Step& s) { s.out = slot; }), HasSubstr("slot out of range"));
    }
}

TEST(StepCodec, RefusesTextAndBytesOutOfRange)
{
    for (int i = 0; i < 4; ++i)
        EXPECT_THAT(refusal(0, [&](Step& s) { s.text[i] = 1 << 20; }), HasSubstr("text out of range"));
    EXPECT_THAT(refusal(0, [](Step& s) { s.label = 1 << 20; }), HasSubstr("label out of range"));
    EXPECT_THAT(refusal(0, [](Step& s) { s.size = ~std::uint64_t{0}; }), HasSubstr("bytes out of range"));
    // A size that fits the arena, but not from where it begins.
    const auto arena = sample().arena().size();
    EXPECT_THAT(refusal(0, [&](Step& s) { s.size = arena - s.text[0] + 1; }),
                HasSubstr("bytes out of range"));
    EXPECT_EQ(refusal(0, [&](Step& s) { s.size = arena - s.text[0]; }), "accepted");
}

TEST(StepCodec, RefusesASendThatReachesBeyondItsMessage)
{
    EXPECT_THAT(refusal(2, [](Step& s) { s.a = 5; }), HasSubstr("pid out of range"));
    EXPECT_THAT(refusal(2, [](Step& s) { s.a = ~1ull; }), HasSubstr("pid out of range"));
    EXPECT_THAT(refusal(2, [](Step& s) { s.b = 1000; }), HasSubstr("slots out of range"));
    EXPECT_THAT(refusal(2, [](Step& s) { s.text[1] = s.text[0]; }), HasSubstr("slot out of range"))
        << "the bytes of the message as slots";
}

TEST(StepCodec, RefusesBlocksAndWordsThatAreNotThere)
{
    EXPECT_THAT(refusal(3, [](Step& s) { s.b = 2; }), HasSubstr("block out of range"));
    EXPECT_THAT(refusal(4, [](Step& s) { s.a = 99; }), HasSubstr("words out of range"));
    EXPECT_THAT(refusal(4, [](Step& s) { s.b = 99; }), HasSubstr("words out of range"));
    EXPECT_THAT(refusal(4, [](Step& s) { s.c = 99; }), HasSubstr("words out of range"));
    EXPECT_THAT(refusal(5, [](Step& s) { s.b = 99; }), HasSubstr("words out of range"));
}

TEST(StepCodec, RefusesWhatNoInterpreterKnows)
{
    EXPECT_THAT(refusal(0, [](Step& s) { s.op = static_cast<Op>(1000); }), HasSubstr("unknown step"));
}

TEST(StepCodec, RefusesBlocksThatOverlapOrBeginLate)
{
    const StepList list = sample();
    const std::size_t starts = step_at(list.steps().size());
    std::string late = list.encode();
    put(late, starts, std::uint32_t{1});
    EXPECT_FALSE(StepList::decode(late, fds_of(list))) << "block 0 must begin at step 0";
    StepList three = sample();
    three.begin_block();
    std::string back = three.encode();
    const std::size_t three_starts = step_at(three.steps().size());
    put(back, three_starts + sizeof(std::uint32_t), std::uint32_t{6});
    put(back, three_starts + 2 * sizeof(std::uint32_t), std::uint32_t{5});
    EXPECT_FALSE(StepList::decode(back, fds_of(three))) << "its length would be huge";
    std::string beyond = list.encode();
    put(beyond, starts + sizeof(std::uint32_t), std::uint32_t{100});
    EXPECT_FALSE(StepList::decode(beyond, fds_of(list)));
}

TEST(StepCodec, RefusesAnArenaWithoutAnEnd)
{
    const StepList list = sample();
    std::string bytes = list.encode();
    bytes.back() = 'x';
    EXPECT_THAT(StepList::decode(bytes, fds_of(list)).error().message, HasSubstr("arena does not end"));
}

} // namespace
} // namespace berth::sys
