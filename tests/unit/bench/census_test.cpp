#include "bench/census.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../sys/temp_dir.hpp"

namespace berth::bench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kOurs = "sbx_01hzzzzzzzzzzzzzzzzzzzzzzz";
constexpr const char* kTheirs = "sbx_01hyyyyyyyyyyyyyyyyyyyyyyy";

class CensusTest : public testing::Test {
protected:
    [[nodiscard]] Census take() const { return Census::take(state, {kOurs}); }
    [[nodiscard]] std::vector<std::string> left(const Census& before) const
    {
        return leftovers(before, [this] { return take(); }, std::chrono::milliseconds(0));
    }

    sys::TempDir dir;
    local::StateDir state = *local::StateDir::open(dir / "state");
};

TEST_F(CensusTest, FindsNothingWhenNothingHappened) { EXPECT_THAT(left(take()), IsEmpty()); }

TEST_F(CensusTest, FindsAProcessThatWasNotReaped)
{
    const auto before = take();
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    EXPECT_THAT(left(before), Contains(HasSubstr("process " + std::to_string(pid))));
    ::waitpid(pid, nullptr, 0);
    EXPECT_THAT(left(before), IsEmpty());
}

TEST_F(CensusTest, FindsADescriptor)
{
    const auto before = take();
    {
        const UniqueFd open(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
        EXPECT_THAT(left(before), Contains(HasSubstr("net:[")));
    }
    EXPECT_THAT(left(before), IsEmpty());
}

TEST_F(CensusTest, FindsOurSandboxAndNotSomebodyElses)
{
    const auto before = take();
    ASSERT_EQ(::mkdir((state.sandboxes() + "/" + kTheirs).c_str(), 0700), 0);
    EXPECT_THAT(left(before), IsEmpty());
    ASSERT_EQ(::mkdir((state.sandboxes() + "/" + kOurs).c_str(), 0700), 0);
    EXPECT_THAT(left(before), SizeIs(1));
    ASSERT_EQ(::rmdir((state.sandboxes() + "/" + kOurs).c_str()), 0);
    ASSERT_EQ(::mkdir((state.trash() + "/what").c_str(), 0700), 0);
    EXPECT_THAT(left(before), Contains(HasSubstr("trash/what")));
}

TEST_F(CensusTest, WaitsForWhatGoesByItself)
{
    const auto before = take();
    int looks = 0;
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const auto with = take();
    const auto looked = [&] { return ++looks < 3 ? with : before; };
    EXPECT_THAT(leftovers(before, looked, std::chrono::seconds(10)), IsEmpty());
    EXPECT_EQ(looks, 3);
}

} // namespace
} // namespace berth::bench
