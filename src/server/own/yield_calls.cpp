// Commands for somebody who takes turns.

#include "base/encoding.hpp"
#include "core/exec_reader.hpp"
#include "core/write_id.hpp"
#include "lifecycle/documents.hpp"
#include "lifecycle/yield.hpp"
#include "server/own/api.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

struct Turn {
    YieldInput input;
    YieldWish wish;
    std::uint64_t next = 0;
};

Status read_bytes(const json::Reader& reader, YieldInput& out)
{
    BERTH_TRY(const auto text, reader.find("input"));
    if (text) {
        BERTH_TRY(out.bytes, text->string());
    }
    BERTH_TRY(const auto encoded, reader.find("input_base64"));
    if (!encoded) return {};
    if (text) return encoded->refuse("either this or /input");
    BERTH_TRY(const auto word, encoded->string());
    auto bytes = base64_decode(word);
    if (!bytes) return encoded->refuse("must be base64");
    out.bytes = *std::move(bytes);
    return {};
}

Result<Turn> read_turn(const json::Reader& reader)
{
    BERTH_CHECK(reader.only(members_of("Turn")));
    Turn out;
    BERTH_CHECK(read_bytes(reader, out.input));
    BERTH_TRY(const auto write, reader.find("write"));
    if (write) {
        BERTH_TRY(const auto number, write->integer(1, kMostWrites));
        out.input.write = static_cast<std::uint64_t>(number);
    }
    BERTH_TRY(const auto close, reader.find("close"));
    if (close) {
        BERTH_TRY(out.input.close, close->boolean());
    }
    BERTH_TRY(const auto next, reader.find("next_seq"));
    if (next) {
        BERTH_TRY(const auto number, next->integer(0, std::int64_t{1} << 52));
        out.next = static_cast<std::uint64_t>(number);
    }
    BERTH_TRY(const auto time, reader.find("yield_ms"));
    if (time) {
        BERTH_TRY(const auto number, time->integer(0, INT32_MAX));
        out.wish.time = std::chrono::milliseconds(number);
    }
    BERTH_TRY(const auto tokens, reader.find("max_output_tokens"));
    if (tokens) {
        BERTH_TRY(const auto number, tokens->integer(1, kMostTokens));
        out.wish.max_tokens = static_cast<std::size_t>(number);
    }
    return out;
}

} // namespace

Task<Answer> Api::yield_exec(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto exec, co_await exec_of(call, record));
    BERTH_CO_CHECK(has_log(exec));
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    BERTH_CO_TRY(auto turn, read_turn(json::Reader(body)));
    BERTH_CO_TRY(const auto answer, co_await yield_write(lifecycle(), record, exec.id, turn.next,
                                                         std::move(turn.input), turn.wish));
    co_return http::json_response(200, documents::yielded(record.id(), answer));
}

} // namespace berth::own
