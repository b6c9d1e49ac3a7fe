#include "backend/e2b/context_archive.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace berth::e2b_client {
namespace {

class Context : public ::testing::Test {
protected:
    Context()
    {
        std::string pattern = "/tmp/berth-context-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
    }
    ~Context() override { std::filesystem::remove_all(path_); }

    void file(const std::string& name, const std::string& text)
    {
        const auto place = std::filesystem::path(path_) / name;
        std::filesystem::create_directories(place.parent_path());
        std::ofstream(place) << text;
    }
    std::string hash(const std::string& source)
    {
        const auto packed = pack_context(path_, source);
        return packed ? packed->hash : packed.error().line();
    }
    std::string path_;
};

TEST_F(Context, EqualFilesHaveEqualHashesAndOthersDoNot)
{
    file("a/x", "1");
    file("b/x", "1");
    const auto before = hash("a");
    EXPECT_EQ(before.size(), 64u);
    EXPECT_EQ(hash("./a/"), before);
    EXPECT_NE(hash("b"), before);
    file("a/x", "2");
    EXPECT_NE(hash("a"), before);
    file("a/x", "1");
    EXPECT_EQ(hash("a"), before);
    ::chmod((path_ + "/a/x").c_str(), 0755);
    EXPECT_NE(hash("a"), before);
}

TEST_F(Context, NothingComesFromElsewhere)
{
    file("a", "1");
    for (const auto* const source : {"../a", "a/../../b", "/../x"})
        EXPECT_EQ(pack_context(path_, source).error().code, Code::Invalid) << source;
    EXPECT_EQ(pack_context(path_, "none").error().code, Code::NotFound);
    EXPECT_EQ(pack_context(path_, "*.none").error().code, Code::NotFound);
    ASSERT_EQ(::mkfifo((path_ + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(pack_context(path_, "pipe").error().code, Code::Invalid);
}

TEST_F(Context, WhatIsIgnoredStaysHere)
{
    file("tree/keep", "1");
    const auto before = hash("tree");
    file("tree/secret", "2");
    file("tree/node_modules/deep/x", "3");
    EXPECT_NE(hash("tree"), before);
    file(".dockerignore", "# these\ntree/secret\n**/node_modules\n");
    EXPECT_EQ(hash("tree"), before);
}

TEST(Ignored, TheLastLineThatFitsDecides)
{
    const std::vector<std::string> lines{"*.log", "!kept.log", "/build/", "**/cache"};
    EXPECT_TRUE(is_ignored(lines, "x.log"));
    EXPECT_FALSE(is_ignored(lines, "kept.log"));
    EXPECT_FALSE(is_ignored(lines, "sub/x.log"));
    EXPECT_TRUE(is_ignored(lines, "build/a/b"));
    EXPECT_TRUE(is_ignored(lines, "a/b/cache/c"));
    EXPECT_FALSE(is_ignored(lines, "cached"));
}

} // namespace
} // namespace berth::e2b_client
