#include "lifecycle/key.hpp"

#include <gtest/gtest.h>

#include "lifecycle/key_lock.hpp"
#include "support/run_task.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;

TEST(Key, IsTheTextExoHas)
{
    EXPECT_EQ(*conversation_key("c1", "sandbox-1"), "conversation:c1:sandbox-1");
    EXPECT_EQ(*agent_key("a1", "sandbox-1"), "agent:a1:sandbox-1");
}

TEST(Key, OfAmbiguousIdsIsRefused)
{
    for (const char* bad : {"", "a:b", "a\nb", "a\x7f"}) EXPECT_FALSE(conversation_key(bad, "s")) << bad;
    EXPECT_FALSE(agent_key("a", std::string("s\0t", 3)));
}

TEST(Key, IsBoundedText)
{
    EXPECT_TRUE(check_key("a key with spaces, and ümlauts"));
    for (const std::string& bad :
         {std::string(), std::string(513, 'x'), std::string("a\tb"), std::string("\xff")})
        EXPECT_EQ(check_key(bad).error().code, Code::Invalid);
}

Task<Status> take_and_let_go(std::string file)
{
    BERTH_CO_TRY(const auto held, co_await KeyLock::take(std::move(file), "a", 20ms));
    co_return Status{};
}

TEST(KeyLock, IsOneOfANameAtATime)
{
    char path[] = "/tmp/berth-lock-XXXXXX";
    const int fd = ::mkstemp(&path[0]);
    ASSERT_GE(fd, 0);
    auto first = KeyLock::try_take(path, "a");
    ASSERT_TRUE(first && *first);
    EXPECT_FALSE(*KeyLock::try_take(path, "a"));
    EXPECT_TRUE(*KeyLock::try_take(path, "b"));
    const auto waited = run_task(take_and_let_go(path));
    ASSERT_FALSE(waited);
    EXPECT_EQ(waited.error().code, Code::Unavailable);
    first->reset();
    EXPECT_TRUE(run_task(take_and_let_go(path)));
    ::close(fd);
    ::unlink(path);
}

} // namespace
} // namespace berth
