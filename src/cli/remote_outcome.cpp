#include "base/strings.hpp"
#include "cli/remote.hpp"
#include "cli/session.hpp"

namespace berth::cli::remote {

namespace {

Outcome outcome_of(const json::Object& told, const std::string& sandbox)
{
    Outcome out{.tier = text_of(told, "outcome"),
                .sandbox = sandbox,
                .snapshot = text_of(told, "snapshot"),
                .unsynced_since = text_of(told, "unsynced_since")};
    if (const auto* const lost = told.if_contains("lost_seconds"); lost != nullptr && lost->is_number())
        out.lost = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(lost->to_number<double>()));
    if (const auto* const notes = told.if_contains("notes"); notes != nullptr && notes->is_array())
        for (const auto& note : notes->get_array())
            if (note.is_string()) out.notes.emplace_back(note.get_string());
    return out;
}

} // namespace

void say_outcome(const json::Object& told, const std::string& sandbox)
{
    cli::say_outcome(outcome_of(told, sandbox));
}

void say_unless_attached(const json::Object& told, const std::string& sandbox)
{
    // A server that says nothing of it is older than we are.
    const auto tier = text_of(told, "outcome");
    if (!tier.empty() && tier != to_string(Tier::Attached)) say_outcome(told, sandbox);
}

Result<std::string> use(Server& server, const std::string& ref)
{
    BERTH_TRY(auto path, server.path_of(ref));
    BERTH_TRY(const auto told, server.call("POST", path + "/start"));
    say_unless_attached(told, text_of(told, "id"));
    return path;
}

} // namespace berth::cli::remote
