// A sandbox that is found again: some work in it, a snapshot, two forks of it, and everything gone at the
// end.

#include <iostream>

#include "berth/berth.hpp"

namespace {

using namespace berth;

/// Runs a command and answers what it printed.
Result<std::string> shell(Berth& berth, const std::string& sandbox, const std::string& script)
{
    ExecSpec exec;
    exec.argv = {"sh", "-c", script};
    std::string output;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
    BERTH_TRY(const auto outcome, berth.run(berth.exec(sandbox, std::move(exec), std::move(streams))));
    if (!outcome.status.success())
        return fail(Code::Internal, "'{}' ended with {}", script, to_string(outcome.status));
    return output;
}

Status work()
{
    BERTH_TRY(const auto berth, Berth::open());
    auto& lifecycle = berth->lifecycle();

    AcquireRequest wish;
    wish.key = "example";
    wish.spec.policy = *policy::preset("sandbox");
    BERTH_TRY(const auto first, berth->run(lifecycle.acquire(wish)));
    std::cout << "the first time it is " << to_string(first.tier) << "\n";
    BERTH_TRY(const auto again, berth->run(lifecycle.acquire(wish)));
    std::cout << "the second time it is " << to_string(again.tier) << "\n";

    BERTH_TRY([[maybe_unused]] const auto nothing, shell(*berth, "example", "echo precious > ~/work"));
    BERTH_TRY(const auto taken,
              berth->run(lifecycle.snapshot("example", {.kind = {}, .note = "before the risk"})));
    std::cout << "snapshot of kind " << taken.record.kind << "\n";

    BERTH_TRY(const auto forked, berth->run(lifecycle.fork("example", {.count = 2, .name = "try"})));
    for (const auto& fork : forked.forks) {
        BERTH_TRY(const auto found, shell(*berth, fork.id(), "cat ~/work; hostname"));
        std::cout << "a fork has: " << found;
        BERTH_TRY([[maybe_unused]] const auto gone, berth->run(lifecycle.destroy(fork.id())));
    }
    BERTH_TRY([[maybe_unused]] const auto stopped,
              berth->run(lifecycle.stop("example", std::chrono::seconds(1))));
    BERTH_TRY(const auto started, berth->run(lifecycle.use("example")));
    BERTH_TRY(const auto kept, shell(*berth, "example", "cat ~/work"));
    std::cout << "after a stop it is " << to_string(started.tier) << " and has: " << kept;
    BERTH_TRY([[maybe_unused]] const auto gone, berth->run(lifecycle.destroy("example")));
    BERTH_TRY([[maybe_unused]] const auto collected, berth->run(lifecycle.collect({.keep_last = 0})));
    return {};
}

} // namespace

int main()
{
    if (const auto done = work(); !done) {
        std::cerr << "keep_work: " << done.error().line() << "\n";
        return 1;
    }
    return 0;
}
