#include "core/exec_event.hpp"

namespace berth {

std::string_view to_string(ExecEvent::Kind kind) noexcept
{
    switch (kind) {
    case ExecEvent::Kind::Start: return "start";
    case ExecEvent::Kind::Stdout: return "stdout";
    case ExecEvent::Kind::Stderr: return "stderr";
    case ExecEvent::Kind::Pty: return "pty";
    case ExecEvent::Kind::Exit: return "exit";
    case ExecEvent::Kind::Closed: return "closed";
    case ExecEvent::Kind::Gap: return "gap";
    }
    return "gap";
}

} // namespace berth
