#include "cli/event_json.hpp"

#include "base/json.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

std::string missing_words(const ExecEvent& gap)
{
    if (gap.gap_bytes == 0) return "output may be missing here: nobody was connected for a while";
    return fmt::format("{} bytes of output are missing here", gap.gap_bytes);
}

std::string event_line(const ExecEvent& event, bool timed_out)
{
    return json::dump(documents::event(event, timed_out)) + "\n";
}

std::string limit_line(std::string_view message)
{
    json::Object line;
    line["event"] = "limit";
    line["message"] = message;
    return json::dump(line) + "\n";
}

} // namespace berth::cli
