#include "cli/event_json.hpp"

#include "base/encoding.hpp"
#include "base/json.hpp"

namespace berth::cli {

std::string event_line(const ExecEvent& event)
{
    json::Object line;
    line["event"] = std::string_view(to_string(event.kind));
    line["seq"] = event.sequence;
    line["time_ns"] = event.time.time_since_epoch().count();
    switch (event.kind) {
    case ExecEvent::Kind::Stdout:
    case ExecEvent::Kind::Stderr:
    case ExecEvent::Kind::Pty: line["data"] = base64_encode(event.bytes); break;
    case ExecEvent::Kind::Exit:
        line["status"] = to_string(event.status);
        if (const auto code = event.status.code()) line["code"] = *code;
        if (const auto signal = event.status.signal()) line["signal"] = *signal;
        break;
    case ExecEvent::Kind::Gap: line["bytes"] = event.gap_bytes; break;
    case ExecEvent::Kind::Start:
    case ExecEvent::Kind::Closed: break;
    }
    return json::dump(line) + "\n";
}

std::string limit_line(std::string_view message)
{
    json::Object line;
    line["event"] = "limit";
    line["message"] = message;
    return json::dump(line) + "\n";
}

} // namespace berth::cli
