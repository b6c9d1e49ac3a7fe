#include "cli/exec_yield.hpp"

#include <iostream>

#include <CLI/CLI.hpp>

#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/mind.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

void add_yield_options(CLI::App& app, YieldOptions& o)
{
    const char* group = "Taking turns";
    app.add_option("--yield", o.time,
                   "Return after this time (0.25s to 30s) with what there is; the command runs on")
        ->type_name("TIME")
        ->group(group);
    app.add_option("--max-output-tokens", o.max_tokens,
                   "Keep the head and the tail of a longer output, about 4 bytes a token")
        ->type_name("N")
        ->group(group);
}

Result<YieldWish> read_yield(const YieldOptions& options)
{
    YieldWish wish;
    if (!options.time.empty()) {
        BERTH_TRY(wish.time, parse_duration(options.time));
    }
    if (!options.max_tokens.empty()) {
        BERTH_TRY(const auto tokens, parse_int(options.max_tokens, 1, kMostTokens, "--max-output-tokens"));
        wish.max_tokens = static_cast<std::size_t>(tokens);
    }
    return wish;
}

std::string missing_in_turn(std::string_view bytes)
{
    return fmt::format("{} bytes of output are missing in it: the log does not hold them", bytes);
}

Result<int> run_yielding(Berth& berth, const Common& common, const std::string& ref, ExecSpec exec,
                         const YieldOptions& options)
{
    BERTH_TRY(const auto wish, read_yield(options));
    auto& lifecycle = berth.lifecycle();
    BERTH_TRY(const auto acquired, berth.run(lifecycle.use(ref)));
    if (!common.json) say_unless_attached(acquired);
    const bool minded = exec.timeout.has_value();
    BERTH_TRY(const auto answer, berth.run(yield_start(lifecycle, acquired.record, std::move(exec), wish)));
    if (minded && !answer.status) leave_minder(berth.data(), acquired.record.id(), answer.exec);
    if (common.json) {
        auto document = documents::yielded(acquired.record.id(), answer);
        for (auto& member : documents::outcome(acquired)) document[member.key()] = std::move(member.value());
        std::cout << json::dump(document) << std::endl;
    } else {
        std::cout << answer.output << std::flush;
        if (answer.missing > 0) say(missing_in_turn(std::to_string(answer.missing)));
        if (answer.original_tokens) say(fmt::format("about {} tokens of output", *answer.original_tokens));
        if (!answer.status)
            say(fmt::format("{} runs on: berth logs {} {} --follow{}", answer.exec, acquired.record.id(),
                            answer.exec,
                            answer.next == 0 ? "" : fmt::format(" --after {}", answer.next - 1)));
    }
    if (answer.timed_out) return kTimedOut;
    // That it runs on is no failure.
    return answer.status ? answer.status->shell_code() : 0;
}

} // namespace berth::cli
