#include "cli/event_json.hpp"

#include "base/json.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

std::string event_line(const ExecEvent& event) { return json::dump(documents::event(event)) + "\n"; }

std::string limit_line(std::string_view message)
{
    json::Object line;
    line["event"] = "limit";
    line["message"] = message;
    return json::dump(line) + "\n";
}

} // namespace berth::cli
