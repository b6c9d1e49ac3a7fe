#include "protocol/e2b/process.hpp"

#include <csignal>
#include <cstring>

#include "base/encoding.hpp"
#include "protocol/e2b/fields.hpp"

namespace berth::e2b {

namespace {

Result<std::optional<PtySize>> read_pty(const json::Reader& from)
{
    BERTH_TRY(const auto pty, fields::find(from, "pty"));
    if (!pty) return std::optional<PtySize>{};
    PtySize out;
    BERTH_TRY(const auto size, fields::find(*pty, "size"));
    if (!size) return out;
    BERTH_TRY(const auto columns, fields::whole(*size, "cols", 0, 65535));
    BERTH_TRY(const auto rows, fields::whole(*size, "rows", 0, 65535));
    out.columns = static_cast<std::uint16_t>(columns);
    out.rows = static_cast<std::uint16_t>(rows);
    return out;
}

Result<Selector> read_selector(const json::Reader& from)
{
    BERTH_TRY(const auto process, fields::find(from, "process"));
    if (!process) return Selector{};
    BERTH_TRY(auto tag, fields::maybe_text(*process, "tag"));
    if (tag) return Selector{*std::move(tag)};
    BERTH_TRY(const auto pid, fields::maybe_whole(*process, "pid", 0, UINT32_MAX));
    if (pid) return Selector{static_cast<std::uint32_t>(*pid)};
    return Selector{};
}

Result<std::optional<ProcessInput>> read_input(const json::Reader& from)
{
    BERTH_TRY(const auto input, fields::find(from, "input"));
    if (!input) return std::optional<ProcessInput>{};
    BERTH_TRY(auto typed, fields::maybe_bytes(*input, "pty"));
    if (typed) return ProcessInput{.to = ProcessInput::To::Pty, .bytes = *std::move(typed)};
    BERTH_TRY(auto bytes, fields::maybe_bytes(*input, "stdin"));
    return ProcessInput{.to = ProcessInput::To::Stdin, .bytes = std::move(bytes).value_or("")};
}

/// An enum is its name or its number.
Result<int> read_signal(const json::Reader& from)
{
    BERTH_TRY(const auto signal, fields::find(from, "signal"));
    if (!signal) return 0;
    if (!signal->value().is_string()) {
        BERTH_TRY(const auto number, signal->integer(INT32_MIN, INT32_MAX));
        return number == SIGKILL || number == SIGTERM || number == 0 ? static_cast<int>(number) : -1;
    }
    BERTH_TRY(const auto word, signal->string());
    if (word == "SIGNAL_SIGKILL") return SIGKILL;
    if (word == "SIGNAL_SIGTERM") return SIGTERM;
    return word == "SIGNAL_UNSPECIFIED" ? 0 : -1;
}

std::string message(std::string_view kind, json::Object body)
{
    json::Object event;
    event[kind] = std::move(body);
    json::Object out;
    out["event"] = std::move(event);
    return json::dump(out);
}

std::string_view name_of(Output stream)
{
    switch (stream) {
    case Output::Stdout: return "stdout";
    case Output::Stderr: return "stderr";
    case Output::Pty: return "pty";
    }
    return "stdout";
}

json::Object config_json(const ProcessConfig& config)
{
    json::Object out;
    out["cmd"] = config.cmd;
    if (!config.args.empty()) {
        json::Array args;
        for (const auto& arg : config.args) args.emplace_back(arg);
        out["args"] = std::move(args);
    }
    if (!config.envs.empty()) {
        json::Object envs;
        for (const auto& [name, value] : config.envs) envs[name] = value;
        out["envs"] = std::move(envs);
    }
    if (config.cwd) out["cwd"] = *config.cwd;
    return out;
}

json::Object pty_json(const PtySize& size)
{
    json::Object cells;
    cells["cols"] = size.columns;
    cells["rows"] = size.rows;
    json::Object out;
    out["size"] = std::move(cells);
    return out;
}

/// "signal: killed": the words of the reference server, which are those of its language.
std::string signal_words(int signal)
{
    const char* const words = ::sigdescr_np(signal);
    if (words == nullptr) return fmt::format("signal: signal {}", signal);
    std::string out = "signal: ";
    for (const char* c = words; *c != '\0'; ++c)
        out += *c >= 'A' && *c <= 'Z' ? static_cast<char>(*c - 'A' + 'a') : *c;
    return out;
}

} // namespace

Result<StartRequest> read_start(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    StartRequest out;
    BERTH_TRY(const auto process, fields::find(reader, "process"));
    if (!process) return reader.refuse("no process");
    BERTH_TRY(out.process.cmd, fields::text(*process, "cmd"));
    if (out.process.cmd.empty()) return process->refuse("no cmd");
    BERTH_TRY(const auto args, fields::find(*process, "args"));
    if (args) {
        BERTH_TRY(out.process.args, args->strings());
    }
    BERTH_TRY(out.process.envs, fields::texts(*process, "envs"));
    BERTH_TRY(out.process.cwd, fields::maybe_text(*process, "cwd"));
    BERTH_TRY(out.pty, read_pty(reader));
    BERTH_TRY(out.tag, fields::maybe_text(reader, "tag"));
    BERTH_TRY(out.stdin_open, fields::flag(reader, "stdin", true));
    return out;
}

Result<ProcessCall> read_process_call(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, {.bytes = std::size_t{64} << 20}));
    const json::Reader reader(document);
    ProcessCall out;
    BERTH_TRY(out.process, read_selector(reader));
    BERTH_TRY(out.pty, read_pty(reader));
    BERTH_TRY(out.input, read_input(reader));
    BERTH_TRY(out.signal, read_signal(reader));
    return out;
}

Result<InputMessage> read_input_message(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text, {.bytes = std::size_t{64} << 20}));
    const json::Reader reader(document);
    InputMessage out;
    BERTH_TRY(const auto start, fields::find(reader, "start"));
    if (start) {
        BERTH_TRY(out.start, read_selector(*start));
    }
    BERTH_TRY(const auto data, fields::find(reader, "data"));
    if (data) {
        BERTH_TRY(out.data, read_input(*data));
    }
    return out;
}

std::string start_event(std::uint32_t pid)
{
    json::Object start;
    start["pid"] = pid;
    return message("start", std::move(start));
}

std::string data_event(Output stream, std::string_view bytes)
{
    std::string out;
    append_data_event(out, stream, bytes);
    return out;
}

/// Built by hand: base64 needs no escaping, and this is what a busy command's output goes through.
void append_data_event(std::string& out, Output stream, std::string_view bytes)
{
    out.append(R"({"event":{"data":{")").append(name_of(stream)).append(R"(":")");
    base64_append(out, bytes);
    out.append(R"("}}})");
}

std::string end_event(const ExitStatus& status)
{
    json::Object end;
    const auto code = status.code();
    if (code) {
        const std::string words = fmt::format("exit status {}", *code);
        if (*code != 0) end["exitCode"] = *code;
        end["exited"] = true;
        end["status"] = words;
        if (*code != 0) end["error"] = words;
    } else {
        const auto signal = status.signal();
        const std::string words = signal ? signal_words(*signal) : "unknown: the process was lost";
        end["exitCode"] = -1;
        end["status"] = words;
        end["error"] = words;
    }
    return message("end", std::move(end));
}

std::string keepalive_event() { return R"({"event":{"keepalive":{}}})"; }

std::string list_answer(const std::vector<ProcessInfo>& processes)
{
    json::Object out;
    json::Array list;
    for (const auto& one : processes) {
        json::Object info;
        info["config"] = config_json(one.config);
        info["pid"] = one.pid;
        if (one.tag) info["tag"] = *one.tag;
        list.emplace_back(std::move(info));
    }
    if (!list.empty()) out["processes"] = std::move(list);
    return json::dump(out);
}

Result<ProcessEvent> read_event(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    ProcessEvent out;
    BERTH_TRY(const auto event, fields::find(reader, "event"));
    if (!event) return out;
    BERTH_TRY(const auto start, fields::find(*event, "start"));
    if (start) {
        BERTH_TRY(const auto pid, fields::whole(*start, "pid", 0, UINT32_MAX));
        out.pid = static_cast<std::uint32_t>(pid);
    }
    BERTH_TRY(const auto data, fields::find(*event, "data"));
    if (data) {
        for (const auto stream : {Output::Stdout, Output::Stderr, Output::Pty}) {
            BERTH_TRY(auto bytes, fields::maybe_bytes(*data, name_of(stream)));
            if (!bytes) continue;
            out.stream = stream;
            out.bytes = *std::move(bytes);
        }
    }
    BERTH_TRY(const auto end, fields::find(*event, "end"));
    if (end) {
        out.ended = true;
        BERTH_TRY(out.exited, fields::flag(*end, "exited"));
        BERTH_TRY(const auto code, fields::whole(*end, "exitCode", INT32_MIN, INT32_MAX));
        out.exit_code = static_cast<int>(code);
        BERTH_TRY(out.status, fields::text(*end, "status"));
    }
    return out;
}

std::optional<int> wait_status(const ProcessEvent& event)
{
    if (!event.ended) return std::nullopt;
    if (event.exited)
        return event.exit_code >= 0 && event.exit_code <= 255 ? std::optional(event.exit_code << 8)
                                                              : std::nullopt;
    std::string_view words = event.status;
    constexpr std::string_view dumped = " (core dumped)";
    const bool core = words.ends_with(dumped);
    if (core) words.remove_suffix(dumped.size());
    for (int signal = 1; signal <= 64; ++signal)
        if (signal_words(signal) == words) return core ? signal | 0x80 : signal;
    return std::nullopt;
}

Result<std::vector<std::uint32_t>> read_pids(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    BERTH_TRY(const auto list, fields::find(json::Reader(document), "processes"));
    std::vector<std::uint32_t> out;
    if (!list) return out;
    BERTH_TRY(const auto all, list->array());
    for (const auto& one : all) {
        BERTH_TRY(const auto pid, fields::whole(one, "pid", 0, UINT32_MAX));
        out.push_back(static_cast<std::uint32_t>(pid));
    }
    return out;
}

std::string start_request(const StartRequest& request)
{
    json::Object out;
    out["process"] = config_json(request.process);
    if (request.pty) out["pty"] = pty_json(*request.pty);
    if (request.tag) out["tag"] = *request.tag;
    out["stdin"] = request.stdin_open;
    return json::dump(out);
}

std::string process_request(const ProcessCall& call)
{
    json::Object out;
    json::Object selector;
    if (const auto* const pid = std::get_if<std::uint32_t>(&call.process)) selector["pid"] = *pid;
    if (const auto* const tag = std::get_if<std::string>(&call.process)) selector["tag"] = *tag;
    out["process"] = std::move(selector);
    if (call.pty) out["pty"] = pty_json(*call.pty);
    if (call.input) {
        json::Object input;
        input[call.input->to == ProcessInput::To::Pty ? "pty" : "stdin"] = base64_encode(call.input->bytes);
        out["input"] = std::move(input);
    }
    if (call.signal == SIGKILL) out["signal"] = "SIGNAL_SIGKILL";
    if (call.signal == SIGTERM) out["signal"] = "SIGNAL_SIGTERM";
    return json::dump(out);
}

} // namespace berth::e2b
