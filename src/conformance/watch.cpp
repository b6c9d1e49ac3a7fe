// Changes below a directory, told without a gap.

#include <algorithm>

#include "base/ids.hpp"
#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "watch";

using Kind = FileChange::Kind;

/// A watch of a directory of the shared sandbox; it ends with this.
class Watch {
public:
    explicit Watch(Context& c) : c_(c) {}
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch()
    {
        if (!c_.place().stuck()) (void)c_.await(c_.backend().unwatch(name_));
    }

    Status begin()
    {
        BERTH_TRY(sandbox, c_.shared());
        BERTH_TRY(dir, c_.dir());
        return look(0ms);
    }
    /// What came within the time.
    Status look(std::chrono::milliseconds time)
    {
        BERTH_TRY(auto some, step("watching", c_.await(c_.backend().watch(sandbox, name_, {.path = dir},
                                                                          Context::in(time)))));
        std::ranges::move(some, std::back_inserter(seen));
        return {};
    }
    /// Until a change of this path, of any of these kinds, was told.
    Status until(const std::string& path, const std::vector<Kind>& kinds)
    {
        return c_.eventually("a change of " + path, [&]() -> Result<bool> {
            BERTH_CHECK(look(200ms));
            return std::ranges::any_of(seen, [&](const FileChange& one) {
                return one.path == path && std::ranges::find(kinds, one.kind) != kinds.end();
            });
        });
    }
    Status does(const std::string& script)
    {
        BERTH_TRY([[maybe_unused]] const auto said,
                  c_.output(sandbox, fmt::format("cd {}; {}", dir, script)));
        return {};
    }

    SandboxHandle sandbox;
    std::string dir;
    std::vector<FileChange> seen;

private:
    Context& c_;
    std::string name_ = "conformance-" + random_hex(4);
};

Check told(std::string name, std::string before, std::string script, std::string path,
           std::vector<Kind> kinds)
{
    const auto run = [=](Context& c) -> Status {
        Watch watch(c);
        BERTH_CHECK(watch.begin());
        if (!before.empty()) {
            BERTH_CHECK(watch.does(before));
            BERTH_CHECK(watch.look(300ms));
            watch.seen.clear();
        }
        BERTH_CHECK(watch.does(script));
        return watch.until(path, kinds);
    };
    return {kGroup, std::move(name), {Operation::Watch}, run};
}

Status quiet(Context& c)
{
    Watch watch(c);
    BERTH_CHECK(watch.begin());
    const auto begun = system_clock().steady();
    BERTH_CHECK(watch.look(200ms));
    const auto waited = system_clock().steady() - begun;
    BERTH_CHECK(expect(watch.seen.empty(), "{} changes came of nothing", watch.seen.size()));
    return expect(waited >= 150ms && waited < 20s, "it waited for {} ms", waited / 1ms);
}

Status no_gap(Context& c)
{
    Watch watch(c);
    BERTH_CHECK(watch.begin());
    // Made while nobody asks: they must be told by the next calls.
    BERTH_CHECK(watch.does("i=0; while [ $i -lt 50 ]; do : > f$i; i=$((i+1)); done"));
    return c.eventually("all fifty", [&]() -> Result<bool> {
        BERTH_CHECK(watch.look(200ms));
        for (int i = 0; i < 50; ++i)
            if (std::ranges::none_of(
                    watch.seen, [&](const FileChange& one) { return one.path == fmt::format("f{}", i); }))
                return false;
        return true;
    });
}

Status only_below(Context& c)
{
    Watch watch(c);
    BERTH_CHECK(watch.begin());
    BERTH_TRY(const auto other, c.dir());
    BERTH_TRY([[maybe_unused]] const auto said,
              c.output(watch.sandbox, fmt::format("touch {}/elsewhere", other)));
    BERTH_CHECK(watch.does("touch here"));
    BERTH_CHECK(watch.until("here", {Kind::Created, Kind::Written, Kind::Attributes}));
    for (const auto& one : watch.seen)
        BERTH_CHECK(expect(!one.path.contains("elsewhere"), "a change of another directory was told"));
    return {};
}

Status missing(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    return refused(
        "a directory that is not there",
        c.await(c.backend().watch(sandbox, "conformance-missing", {.path = "/no/such"}, Context::in(0s))),
        Code::NotFound);
}

Status two(Context& c)
{
    Watch first(c);
    Watch second(c);
    BERTH_CHECK(first.begin());
    BERTH_CHECK(second.begin());
    BERTH_CHECK(first.does("touch one"));
    BERTH_CHECK(second.does("touch two"));
    BERTH_CHECK(first.until("one", {Kind::Created, Kind::Written, Kind::Attributes}));
    return second.until("two", {Kind::Created, Kind::Written, Kind::Attributes});
}

Status from_outside(Context& c)
{
    Watch watch(c);
    BERTH_CHECK(watch.begin());
    BERTH_CHECK(c.write(watch.sandbox, watch.dir + "/given", "x"));
    return watch.until("given", {Kind::Created, Kind::Written, Kind::Renamed});
}

Status ended_twice(Context& c)
{
    BERTH_CHECK(step("ending a watch that never was", c.await(c.backend().unwatch("conformance-never"))));
    return step("ending it again", c.await(c.backend().unwatch("conformance-never")));
}

} // namespace

std::vector<Check> watch_checks()
{
    const std::vector<Need> needs{Operation::Watch};
    return {
        told("a new file is told", "", "echo x > new", "new", {Kind::Created}),
        told("a written file is told", "echo x > old", "echo y >> old", "old", {Kind::Written}),
        told("a removed file is told", "echo x > old", "rm old", "old", {Kind::Removed}),
        told("a renamed file is told", "echo x > old", "mv old other", "other",
             {Kind::Renamed, Kind::Created}),
        told("a changed mode is told", "echo x > old", "chmod 600 old", "old", {Kind::Attributes}),
        told("a change in a directory made later is told", "mkdir -p a/b", "echo x > a/b/deep", "a/b/deep",
             {Kind::Created, Kind::Written}),
        told("a file of a tree that appears at once is told", "", "mkdir -p x/y && echo x > x/y/z", "x/y/z",
             {Kind::Created, Kind::Written}),
        {kGroup, "nothing is told of nothing, until the deadline", needs, quiet},
        {kGroup, "what happens between two calls is told", needs, no_gap},
        {kGroup, "another directory is not told", needs, only_below},
        {kGroup, "a missing directory is not found", needs, missing},
        {kGroup, "two watches do not disturb each other", needs, two},
        {kGroup, "a file written from outside is told", needs, from_outside},
        {kGroup, "ending a watch that is not there is success", needs, ended_twice},
    };
}

} // namespace berth::conformance
