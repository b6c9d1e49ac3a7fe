#include "cli/session.hpp"

#include <unistd.h>

#include "base/brief.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::cli {

Result<std::unique_ptr<Berth>> open_berth(const Common& common, Room room)
{
    BERTH_TRY(auto path, state_path(common));
    return Berth::open({.data = std::move(path), .room = room});
}

void clear_up(const Common& common, const std::string& ref)
{
    const auto cleared = [&]() -> Status {
        BERTH_TRY(const auto berth, open_berth(common, Room::Frees));
        return berth->run(berth->lifecycle().clear_up(ref));
    }();
    say(cleared
            ? fmt::format("interrupted: what was not finished is removed, {} goes on", printable(ref, 80))
            : fmt::format("interrupted; berth gc removes what was not finished: {}", cleared.error().line()));
}

int print(std::string_view text)
{
    const auto written = write_all(STDOUT_FILENO, text);
    if (written) return 0;
    if (written.error().sys.value() != EPIPE) say("writing the output: " + written.error().line());
    return exit_code(Code::Internal);
}

int print_document(const json::Object& document) { return print(json::dump(document) + "\n"); }

void say_outcome(const Outcome& outcome)
{
    std::string line = fmt::format("{} {}", outcome.tier, outcome.sandbox);
    if (!outcome.snapshot.empty()) line += " from " + outcome.snapshot;
    if (outcome.lost) line += fmt::format(", without the last {}", brief(*outcome.lost));
    say(printable(line, 600));
    if (!outcome.unsynced_since.empty())
        say(fmt::format("the machine went down: what was written after {} may be damaged",
                        printable(outcome.unsynced_since, 60)));
    for (const auto& note : outcome.notes) say(printable(note, 600));
}

void say_outcome(const Acquired& acquired)
{
    say_outcome({.tier = std::string(to_string(acquired.tier)),
                 .sandbox = acquired.record.id(),
                 .snapshot = acquired.snapshot,
                 .lost = acquired.lost,
                 .unsynced_since = acquired.unsynced_since ? rfc3339(*acquired.unsynced_since) : "",
                 .notes = acquired.notes});
}

int for_each_ref(const Common& common, const std::vector<std::string>& refs, const WorkOnOne& work,
                 std::string_view plural)
{
    json::Array done;
    json::Array errors;
    json::Object document;
    int exit = 0;
    for (const auto& ref : refs) {
        auto one = work(ref);
        if (one) {
            if (!common.json)
                if (const int failed = print(std::string(one->at("id").as_string()) + "\n"); failed != 0)
                    return failed;
            done.emplace_back(*std::move(one));
            continue;
        }
        if (exit == 0) exit = exit_code(one.error().code);
        if (!common.json) {
            say(one.error().line());
            continue;
        }
        auto error = json::error_document(one.error());
        if (errors.empty()) document["error"] = error.at("error");
        json::Object told = error.at("error").as_object();
        told["ref"] = ref;
        errors.emplace_back(std::move(told));
    }
    if (!common.json) return exit;
    document[plural] = std::move(done);
    if (!errors.empty()) document["errors"] = std::move(errors);
    const int failed = print_document(document);
    return exit != 0 ? exit : failed;
}

Result<std::chrono::seconds> parse_seconds(std::string_view option, std::string_view text)
{
    BERTH_TRY(const auto time, parse_duration(text));
    if (time.count() <= 0) return fail(Code::Invalid, "{} must be longer than zero", option);
    return std::chrono::ceil<std::chrono::seconds>(time);
}

Result<std::optional<std::chrono::seconds>> parse_seconds_or_never(std::string_view option,
                                                                   std::string_view text)
{
    if (text == "never") return std::nullopt;
    BERTH_TRY(const auto time, parse_duration(text));
    if (time.count() <= 0)
        return fail(Code::Invalid, "{} must be longer than zero: {} never takes it back", option, option);
    return std::chrono::ceil<std::chrono::seconds>(time);
}

} // namespace berth::cli
