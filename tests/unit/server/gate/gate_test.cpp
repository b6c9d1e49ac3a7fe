#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "base/io.hpp"
#include "server/gate/keys.hpp"
#include "server/gate/pages.hpp"
#include "server/gate/rate.hpp"

namespace berth::gate {
namespace {

struct Place {
    std::string path = ::testing::TempDir() + "berth-gate-XXXXXX";
    Place() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
};

TEST(Keys, TheFirstIsMadeOnceAndClosedToOthers)
{
    const Place place;
    const auto first = Keys(place.path).first();
    ASSERT_TRUE(first) << first.error().line();
    EXPECT_TRUE(first->starts_with("e2b_"));
    EXPECT_EQ(first->find_first_not_of("0123456789abcdef", 4), std::string::npos);
    EXPECT_EQ(*Keys(place.path).first(), *first);
    for (const auto* const file : {"/api-key", "/keys.json"}) {
        struct stat st{};
        ASSERT_EQ(::stat((place.path + file).c_str(), &st), 0);
        EXPECT_EQ(st.st_mode & 0777, 0600u) << file;
    }
    EXPECT_EQ(Keys(place.path).tenant_of(*first), "default");
}

TEST(Keys, EachHasItsTenantAndTheSecretIsNotKept)
{
    const Place place;
    Keys keys(place.path);
    const auto secret = keys.add("alice", "laptop");
    ASSERT_TRUE(secret);
    EXPECT_EQ(keys.tenant_of(*secret), "alice");
    EXPECT_FALSE(keys.tenant_of("e2b_0000"));
    EXPECT_FALSE(keys.tenant_of(""));
    const auto file = read_file(place.path + "/keys.json");
    ASSERT_TRUE(file);
    EXPECT_EQ(file->find(*secret), std::string::npos);
}

TEST(Keys, ARemovedOneOpensNothingAnyMore)
{
    const Place place;
    Keys server(place.path);
    Keys person(place.path);
    const auto secret = person.add("alice", "");
    ASSERT_TRUE(secret);
    EXPECT_TRUE(server.tenant_of(*secret));
    const auto all = person.list();
    ASSERT_TRUE(all);
    ASSERT_EQ(all->size(), 1u);
    ASSERT_TRUE(person.remove(all->front().id));
    EXPECT_FALSE(server.tenant_of(*secret));
    EXPECT_EQ(person.remove("nobody").error().code, Code::NotFound);
}

TEST(Keys, WhoeverWatchesIsToldOfAChangeBeforeAnyLaterRequest)
{
    const Place place;
    Keys server(place.path);
    Keys person(place.path);
    const auto secret = person.add("alice", "");
    ASSERT_TRUE(secret);
    const int changes = server.watch();
    ASSERT_GE(changes, 0);
    EXPECT_TRUE(server.tenant_of(*secret));
    pollfd look{.fd = changes, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&look, 1, 0), 0);
    ASSERT_TRUE(person.remove(Keys::id_of(*secret)));
    EXPECT_EQ(::poll(&look, 1, 0), 1);
    server.changed();
    EXPECT_FALSE(server.tenant_of(*secret));
    EXPECT_EQ(::poll(&look, 1, 0), 0);
}

TEST(Keys, AFileThatCannotBeReadOpensNothing)
{
    const Place place;
    Keys keys(place.path);
    const auto secret = keys.add("alice", "");
    ASSERT_TRUE(secret);
    const UniqueFd writable(::open(place.path.c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_TRUE(replace_file_at(writable.get(), "keys.json", "nonsense"));
    EXPECT_FALSE(keys.tenant_of(*secret));
}

TEST(Rate, ABurstIsTenSecondsWorthAndFillsAgain)
{
    Rate rate(2);
    const SteadyTime begin{std::chrono::hours(1)};
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(rate.take("a", begin)) << i;
    EXPECT_FALSE(rate.take("a", begin));
    EXPECT_TRUE(rate.take("b", begin)); // another's are his own
    EXPECT_TRUE(rate.take("a", begin + std::chrono::milliseconds(500)));
    EXPECT_FALSE(rate.take("a", begin + std::chrono::milliseconds(500)));
    Rate any;
    for (int i = 0; i < 10000; ++i) EXPECT_TRUE(any.take("a", begin));
}

http::RequestHead request(std::string host, std::string origin = {})
{
    http::RequestHead head;
    head.headers.emplace_back("Host", std::move(host));
    if (!origin.empty()) head.headers.emplace_back("Origin", std::move(origin));
    return head;
}

TEST(Names, OnlyOurOwnAreAnsweredTo)
{
    const Names names{.address = "127.0.0.1", .domain = "sbx.localhost"};
    for (const auto* const good :
         {"127.0.0.1:7600", "localhost", "[::1]:1", "sbx.localhost:7600", "49983-i1.sbx.localhost"})
        EXPECT_EQ(names.refuse_host(request(good)), "") << good;
    for (const auto* const bad : {"evil.example", "", "sbx.localhost.evil.example", "127.0.0.1.evil.example"})
        EXPECT_NE(names.refuse_host(request(bad)), "") << bad;
}

TEST(Names, AForeignPageIsRefused)
{
    Names names{.address = "127.0.0.1"};
    EXPECT_NE(names.refuse_page(request("127.0.0.1:7600", "https://evil.example")), "");
    EXPECT_NE(names.refuse_page(request("127.0.0.1:7600", "null")), "");
    EXPECT_EQ(names.refuse_page(request("127.0.0.1:7600", "http://localhost:3000")), "");
    names.origins = {"https://good.example"};
    EXPECT_EQ(names.refuse_page(request("127.0.0.1:7600", "https://good.example")), "");
    EXPECT_NE(names.refuse_page(request("127.0.0.1:7600", "https://evil.example")), "");
}

} // namespace
} // namespace berth::gate
