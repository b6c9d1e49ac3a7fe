#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/codex/process.hpp"

/// process/* as a client sends and hears it. What a server says is bounded here.
namespace berth::codex {

/// The wire's form of what is to be started; an intent that is not there is sent as null.
[[nodiscard]] json::Object write_start(const StartParams& start);
[[nodiscard]] json::Object write_read(const ReadParams& read);
[[nodiscard]] json::Object write_write(const WriteParams& write);

/// One of the numbered events of a process.
struct ProcessEvent {
    enum class Kind { Output, Exited, Closed };
    Kind kind = Kind::Output;
    std::uint64_t seq = 0;
    Stream stream = Stream::Stdout; ///< of Output
    std::string bytes;
    int exit_code = -1; ///< of Exited
    bool denied = false;
};

struct NamedEvent {
    std::string process;
    ProcessEvent event;
};

/// Nothing: a notification about something else.
[[nodiscard]] Result<std::optional<NamedEvent>> read_process_event(std::string_view method,
                                                                   const json::Value& params);

/// What process/read answers.
struct ReadAnswer {
    std::vector<ProcessEvent> chunks; ///< ascending
    std::uint64_t next = 1;
    std::optional<int> exit_code;
    bool exited = false;
    bool closed = false;
    std::string failure;
};
[[nodiscard]] Result<ReadAnswer> read_read_answer(const json::Value& answer);

/// Whether the chunks after `after` and the two other events are all of what was numbered: a piece that the
/// server has dropped is missed here.
[[nodiscard]] bool complete(const ReadAnswer& answer, std::uint64_t after);

enum class WriteAnswer { Accepted, UnknownProcess, StdinClosed, Starting };
[[nodiscard]] Result<WriteAnswer> read_write_answer(const json::Value& answer);

} // namespace berth::codex
