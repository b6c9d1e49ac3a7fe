// Many sandboxes, one after the other and at once: every count is the same before and after.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "backend/local/sandbox.hpp"
#include "base/ids.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

namespace fs = std::filesystem;

/// 60 by default; ./dev soak sets 3000.
int how_many()
{
    const char* text = std::getenv("BERTH_SOAK"); // NOLINT(concurrency-mt-unsafe): one thread
    return text == nullptr ? 60 : std::max(60, std::atoi(text));
}

struct Counts {
    std::size_t processes = 0; ///< that are ours
    std::size_t namespaces = 0;
    std::size_t mounts = 0; ///< of the whole machine as we see it
    std::size_t descriptors = 0;
    std::size_t groups = 0;
    std::vector<std::string> files;
    bool operator==(const Counts&) const = default;
};

Counts counts()
{
    const Traces now = traces();
    return {.processes = now.processes.size(),
            .namespaces = now.namespaces.size(),
            .mounts = now.mounts.size(),
            .descriptors = static_cast<std::size_t>(
                std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator())),
            .groups = now.groups.size(),
            .files = now.files};
}

void print(const Counts& c)
{
    std::printf("processes %zu, namespaces %zu, mounts %zu, descriptors %zu, groups %zu, files %zu\n",
                c.processes, c.namespaces, c.mounts, c.descriptors, c.groups, c.files.size());
}

void expect_equal(const Counts& before)
{
    EXPECT_TRUE(eventually([&] { return counts() == before; }));
    const Counts after = counts();
    print(before);
    print(after);
    EXPECT_EQ(before.processes, after.processes);
    EXPECT_EQ(before.namespaces, after.namespaces);
    EXPECT_EQ(before.mounts, after.mounts);
    EXPECT_EQ(before.descriptors, after.descriptors);
    EXPECT_EQ(before.groups, after.groups);
    EXPECT_EQ(before.files, after.files);
}

TEST(Soak, OfThrowAwaySandboxesLeavesNothing)
{
    const auto dir = Place::here().dir("workspace");
    const Words plain = marked();
    const Words rich = marked({"--workspace", dir, "--policy", "workspace-write"});
    const Counts before = counts();
    const int total = how_many();
    const int at_once = 4;
    for (int done = 0; done < total; done += at_once) {
        std::vector<std::unique_ptr<Started>> batch;
        for (int i = 0; i < at_once && done + i < total; ++i) {
            Words args{"run"};
            const Words& options = i % 2 == 0 ? plain : rich;
            args.insert(args.end(), options.begin(), options.end());
            args.insert(args.end(), {"--", "sh", "-c", "sleep 1000 & echo made > made; exit 5"});
            batch.push_back(std::make_unique<Started>(Start{.args = args}));
        }
        for (auto& run : batch) {
            const auto ended = run->finish();
            ASSERT_EQ(ended.code, 5) << "sandbox " << done << ": " << ended.err;
        }
    }
    expect_equal(before);
    EXPECT_EQ(files_below(dir), std::vector<std::string>{"/made"});
}

/// Makes, uses and destroys one sandbox with a keeper.
Status use_once(const local::StateDir& state)
{
    SandboxSpec spec;
    spec.id = make_sandbox_id(system_clock());
    claim_groups(spec.id);
    BERTH_TRY(spec.policy, policy::preset("sandbox"));
    spec.env["BERTH_TEST_MARK"] = Place::here().mark();
    BERTH_TRY(auto sandbox, local::Sandbox::create(state, spec, {}));
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = {"sh", "-c", "sleep 1000 & echo made > made; exit 5"};
    BERTH_CHECK(sandbox.exec(exec));
    BERTH_TRY(const auto status, sandbox.wait(exec.id, std::chrono::seconds(60)));
    const std::string keeper = fmt::format("/proc/{}", sandbox.keeper_pid());
    BERTH_CHECK(sandbox.destroy());
    if (fs::exists(keeper)) return fail(Code::Internal, "its keeper lives on");
    if (!status || status->shell_code() != 5) return fail(Code::Internal, "it did not exit with 5");
    return {};
}

TEST(Soak, OfKeptSandboxesLeavesNothing)
{
    const auto state = local::StateDir::open(Place::here().state());
    ASSERT_TRUE(state) << state.error().line();
    const auto first = use_once(*state); // what a process makes once: its keeper's image, its probes
    ASSERT_TRUE(first) << first.error().line();
    const Counts before = counts();
    for (int i = 0; i < how_many(); ++i) {
        const auto used = use_once(*state);
        ASSERT_TRUE(used) << "sandbox " << i << ": " << used.error().line();
    }
    expect_equal(before);
}

} // namespace
} // namespace berth::test
