#include "server/gate/documents.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "base/io.hpp"
#include "base/json.hpp"

namespace berth::gate {
namespace {

namespace asio = boost::asio;

struct Place {
    std::string path = ::testing::TempDir() + "berth-documents-XXXXXX";
    Place() { EXPECT_NE(::mkdtemp(path.data()), nullptr); }
    [[nodiscard]] Result<std::string> read(const std::string& name) const
    {
        return read_file_at(AT_FDCWD, path + "/below/" + name, 1_MiB);
    }
};

/// All of these at once, in this order.
std::vector<Status> together(std::vector<Task<Status>> work)
{
    asio::io_context loop;
    std::vector<Status> done(work.size(), fail(Code::Internal, "it did not run"));
    for (std::size_t i = 0; i < work.size(); ++i)
        asio::co_spawn(
            loop,
            [](Task<Status> one, Status& into) -> Task<void> {
                into = co_await std::move(one);
            }(std::move(work[i]), done[i]),
            asio::detached);
    loop.run();
    return done;
}

TEST(Documents, OfManyAtOnceTheLastStaysAndAllSucceed)
{
    const Place place;
    BlockingPool pool(8);
    Documents documents(pool, place.path + "/below");
    for (int round = 0; round < 20; ++round) {
        std::vector<Task<Status>> work;
        for (int i = 0; i < 16; ++i)
            work.push_back(documents.save("one.json", std::string(4096, static_cast<char>('a' + i))));
        for (const auto& done : together(std::move(work))) EXPECT_TRUE(done) << done.error().line();
        const auto text = place.read("one.json");
        ASSERT_TRUE(text) << text.error().line();
        EXPECT_EQ(*text, std::string(4096, 'p'));
    }
}

TEST(Documents, WhatWasRemovedLastStaysAway)
{
    const Place place;
    BlockingPool pool(8);
    Documents documents(pool, place.path + "/below");
    for (int round = 0; round < 20; ++round) {
        std::vector<Task<Status>> work;
        for (int i = 0; i < 8; ++i) work.push_back(documents.save("one.json", "text"));
        work.push_back(documents.remove("one.json"));
        for (const auto& done : together(std::move(work))) EXPECT_TRUE(done) << done.error().line();
        EXPECT_FALSE(place.read("one.json"));
    }
}

TEST(Documents, AreClosedToOthersAndNeedNoDirectory)
{
    const Place place;
    BlockingPool pool(1);
    Documents documents(pool, place.path + "/below");
    std::vector<Task<Status>> work;
    work.push_back(documents.remove("never.json"));
    work.push_back(documents.save("one.json", "secret"));
    for (const auto& done : together(std::move(work))) EXPECT_TRUE(done) << done.error().line();
    struct stat st{};
    ASSERT_EQ(::stat((place.path + "/below/one.json").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u);
}

} // namespace
} // namespace berth::gate
