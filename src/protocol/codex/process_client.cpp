#include "protocol/codex/process_client.hpp"

#include <algorithm>

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"

namespace berth::codex {

namespace {

constexpr std::int64_t kMostSeq = std::int64_t{1} << 53;
constexpr std::size_t kMostChunk = std::size_t{1} << 20;

json::Value text_or_null(const std::optional<std::string>& text)
{
    return text ? json::Value(*text) : json::Value(nullptr);
}

Result<Stream> read_stream(const json::Reader& at)
{
    BERTH_TRY(const auto member, at.at("stream"));
    BERTH_TRY(const auto word, member.string());
    for (const Stream one : {Stream::Stdout, Stream::Stderr, Stream::Pty})
        if (word == to_string(one)) return one;
    return member.refuse("unknown stream '{}'", printable(word, 40));
}

Result<std::uint64_t> read_seq(const json::Reader& at, std::string_view name)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(const auto number, member.integer(0, kMostSeq));
    return static_cast<std::uint64_t>(number);
}

Result<ProcessEvent> read_chunk(const json::Reader& at)
{
    ProcessEvent out;
    BERTH_TRY(out.seq, read_seq(at, "seq"));
    BERTH_TRY(out.stream, read_stream(at));
    BERTH_TRY(const auto member, at.at("chunk"));
    BERTH_TRY(const auto text, member.string());
    if (text.size() > kMostChunk / 3 * 4 + 4) return member.refuse("a chunk of {} characters", text.size());
    auto bytes = base64_decode(text);
    if (!bytes) return member.refuse("a chunk that is no base64");
    out.bytes = *std::move(bytes);
    return out;
}

Result<bool> flag(const json::Reader& at, std::string_view name)
{
    BERTH_TRY(const auto member, at.find(name));
    if (!member) return false;
    return member->boolean();
}

Result<int> read_code(const json::Reader& at)
{
    BERTH_TRY(const auto code, at.integer(INT32_MIN, INT32_MAX));
    return static_cast<int>(code);
}

} // namespace

json::Object write_start(const StartParams& start)
{
    json::Object env;
    for (const auto& [name, value] : start.env) env[name] = value;
    json::Object out;
    out["processId"] = start.process_id;
    out["argv"] = json::Array(start.argv.begin(), start.argv.end());
    out["cwd"] = path_uri(start.cwd);
    out["env"] = std::move(env);
    out["envPolicy"] = nullptr;
    out["tty"] = start.tty;
    out["pipeStdin"] = start.pipe_stdin;
    out["arg0"] = text_or_null(start.arg0);
    out["sandbox"] = start.sandbox ? json::Value(write_intent(*start.sandbox)) : json::Value(nullptr);
    return out;
}

json::Object write_read(const ReadParams& read)
{
    json::Object out;
    out["processId"] = read.process_id;
    out["afterSeq"] = read.after;
    out["maxBytes"] = read.max_bytes ? json::Value(*read.max_bytes) : json::Value(nullptr);
    out["waitMs"] = read.wait_ms;
    return out;
}

json::Object write_write(const WriteParams& write)
{
    json::Object out;
    out["processId"] = write.process_id;
    out["chunk"] = base64_encode(write.bytes);
    out["writeId"] = write.write_id;
    return out;
}

Result<std::optional<NamedEvent>> read_process_event(std::string_view method, const json::Value& params)
{
    using Kind = ProcessEvent::Kind;
    const bool output = method == "process/output";
    const bool exited = method == "process/exited";
    if (!output && !exited && method != "process/closed") return std::optional<NamedEvent>{};
    const json::Reader at(params);
    NamedEvent out;
    BERTH_TRY(const auto process, at.at("processId"));
    BERTH_TRY(out.process, process.string());
    if (output) {
        BERTH_TRY(out.event, read_chunk(at));
        return out;
    }
    out.event.kind = exited ? Kind::Exited : Kind::Closed;
    BERTH_TRY(out.event.seq, read_seq(at, "seq"));
    if (!exited) return out;
    BERTH_TRY(const auto code, at.at("exitCode"));
    BERTH_TRY(out.event.exit_code, read_code(code));
    BERTH_TRY(out.event.denied, flag(at, "sandboxDenied"));
    return out;
}

Result<ReadAnswer> read_read_answer(const json::Value& answer)
{
    const json::Reader at(answer);
    ReadAnswer out;
    BERTH_TRY(const auto chunks, at.at("chunks"));
    BERTH_TRY(const auto items, chunks.array());
    for (const auto& item : items) {
        BERTH_TRY(auto one, read_chunk(item));
        if (!out.chunks.empty() && one.seq <= out.chunks.back().seq)
            return item.refuse("chunk {} after chunk {}", one.seq, out.chunks.back().seq);
        out.chunks.push_back(std::move(one));
    }
    BERTH_TRY(out.next, read_seq(at, "nextSeq"));
    BERTH_TRY(out.exited, flag(at, "exited"));
    BERTH_TRY(out.closed, flag(at, "closed"));
    BERTH_TRY(const auto code, at.find("exitCode"));
    if (code) {
        BERTH_TRY(out.exit_code, read_code(*code));
    }
    BERTH_TRY(const auto failure, at.find("failure"));
    if (failure) {
        BERTH_TRY(out.failure, failure->string());
    }
    return out;
}

bool complete(const ReadAnswer& answer, std::uint64_t after)
{
    if (answer.next <= after) return true;
    const std::uint64_t numbered = answer.next - after - 1;
    const auto told = static_cast<std::uint64_t>(
        std::ranges::count_if(answer.chunks, [&](const ProcessEvent& one) { return one.seq > after; }));
    const std::uint64_t others = (answer.exited ? 1u : 0u) + (answer.closed ? 1u : 0u);
    return told <= numbered && numbered - told <= others;
}

Result<WriteAnswer> read_write_answer(const json::Value& answer)
{
    const json::Reader at(answer);
    BERTH_TRY(const auto member, at.at("status"));
    BERTH_TRY(const auto word, member.string());
    if (word == "accepted") return WriteAnswer::Accepted;
    if (word == "unknownProcess") return WriteAnswer::UnknownProcess;
    if (word == "stdinClosed") return WriteAnswer::StdinClosed;
    if (word == "starting") return WriteAnswer::Starting;
    return member.refuse("unknown status '{}'", printable(word, 40));
}

} // namespace berth::codex
