#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/exit_status.hpp"
#include "base/json.hpp"

/// The messages of envd's service process.Process, as JSON.
namespace berth::e2b {

struct PtySize {
    std::uint16_t columns = 80;
    std::uint16_t rows = 24;
};

struct ProcessConfig {
    std::string cmd;
    std::vector<std::string> args;
    std::map<std::string, std::string> envs;
    std::optional<std::string> cwd;
};

struct StartRequest {
    ProcessConfig process;
    std::optional<PtySize> pty;
    std::optional<std::string> tag;
    bool stdin_open = true; ///< absent counts as true, for old clients
};

/// By number or by tag.
using Selector = std::variant<std::monostate, std::uint32_t, std::string>;

struct ProcessInput {
    enum class To { Stdin, Pty };
    To to = To::Stdin;
    std::string bytes;
};

struct ProcessCall {
    Selector process;
    std::optional<PtySize> pty;        ///< of Update
    std::optional<ProcessInput> input; ///< of SendInput
    int signal = 0;                    ///< of SendSignal; -1: a word we do not know
};

/// One message of StreamInput.
struct InputMessage {
    std::optional<Selector> start;
    std::optional<ProcessInput> data; ///< neither: a keepalive
};

[[nodiscard]] Result<StartRequest> read_start(std::string_view text);
/// Connect, Update, SendInput, SendSignal, CloseStdin: all name a process.
[[nodiscard]] Result<ProcessCall> read_process_call(std::string_view text);
[[nodiscard]] Result<InputMessage> read_input_message(std::string_view text);

enum class Output { Stdout, Stderr, Pty };

struct ProcessInfo {
    ProcessConfig config;
    std::uint32_t pid = 0;
    std::optional<std::string> tag;
};

/// The answers, each a whole message.
[[nodiscard]] std::string start_event(std::uint32_t pid);
[[nodiscard]] std::string data_event(Output stream, std::string_view bytes);
/// The same behind what is there.
void append_data_event(std::string& out, Output stream, std::string_view bytes);
[[nodiscard]] std::string end_event(const ExitStatus& status);
[[nodiscard]] std::string keepalive_event();
[[nodiscard]] std::string list_answer(const std::vector<ProcessInfo>& processes);

/// The other side: what a client sends, and what it is told.
struct ProcessEvent {
    std::optional<std::uint32_t> pid; ///< start
    std::optional<Output> stream;     ///< data
    std::string bytes;
    bool ended = false;
    bool exited = false; ///< of an end: by itself
    int exit_code = 0;
    std::string status;
};
[[nodiscard]] Result<ProcessEvent> read_event(std::string_view text);
/// How a process ended, as wait(2) would have told it; nothing when the event does not say.
[[nodiscard]] std::optional<int> wait_status(const ProcessEvent& event);
/// The numbers of the processes in an answer of List.
[[nodiscard]] Result<std::vector<std::uint32_t>> read_pids(std::string_view text);
[[nodiscard]] std::string start_request(const StartRequest& request);
[[nodiscard]] std::string process_request(const ProcessCall& call);

} // namespace berth::e2b
