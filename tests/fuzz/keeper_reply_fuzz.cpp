// What a keeper, or whoever has taken it over, may say and write: answers on the socket, and the
// records of an index. The first byte chooses.

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backend/local/shared.hpp"
#include "keeper/wire.hpp"
#include "keeping/exec_log.hpp"

namespace {

void require(bool holds)
{
    if (!holds) std::abort();
}

void check_answer(const std::vector<char>& message, std::uint32_t descriptors)
{
    using namespace berth::keeper;
    if (!check_reply(message.data(), message.size(), descriptors)) return;
    require(descriptors <= 1 && message.size() <= sizeof(ItemsReply));
    const auto header = load<Header>(message.data());
    if (static_cast<Type>(header.type) != Type::Item) {
        require(message.size() == sizeof(Reply));
        return;
    }
    const std::size_t count = (message.size() - kItemsHead) / sizeof(Item);
    require(count >= 1 && kItemsHead + count * sizeof(Item) == message.size());
    for (std::size_t i = 0; i < count; ++i)
        static_cast<void>(load<Item>(message.data() + kItemsHead + i * sizeof(Item)));
}

void check_index(const std::vector<char>& bytes, std::uint64_t from)
{
    using namespace berth::keeper;
    if (bytes.size() >= sizeof(IndexHead)) static_cast<void>(good_head(load<IndexHead>(bytes.data())));
    const auto records = berth::local::parse_records({bytes.data(), bytes.size()}, from);
    if (!records) return;
    require(records->size() <= bytes.size() / sizeof(Record));
    for (std::size_t i = 0; i < records->size(); ++i) {
        const Record& r = (*records)[i];
        require(good_record(r, from + i));
        // What a follower adds up never overflows, and what it reads at once is bounded.
        require(r.offset + r.length >= r.offset);
        require(stream_of(r.kind) < 0 || r.length <= kMaxRecordBytes);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size < 2) return 0;
    const std::vector<char> bytes(data + 2, data + size);
    if (data[0] % 2 == 0)
        check_answer(bytes, data[1]);
    else
        check_index(bytes, data[1]);
    return 0;
}
