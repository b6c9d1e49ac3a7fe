#include "distribution/images.hpp"

#include <sys/inotify.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/image/names_in.hpp"
#include "unit/image/oci_builder.hpp"

namespace berth::distribution {
namespace {

using image::OciBuilder;
using image::RawTar;
using testing::IsEmpty;
using testing::SizeIs;

class ImagesOfADirectory : public ::testing::Test {
protected:
    ImagesOfADirectory() { layout_.image({OciBuilder::Layer{.tar = RawTar().file("etc/a", "1").done()}}); }
    [[nodiscard]] KeptImage take(const std::string& name) const
    {
        const auto got = images_.import(*parse_reference(name), layout_.path(), {});
        EXPECT_TRUE(got) << got.error().line();
        return got.value_or(KeptImage{});
    }
    [[nodiscard]] std::size_t trees() const
    {
        const auto names = image::names_in(dir_ / "data/images");
        return static_cast<std::size_t>(
            std::ranges::count_if(names, [](const auto& name) { return name.starts_with("image-"); }));
    }

    sys::TempDir dir_;
    OciBuilder layout_{dir_};
    Images images_ = *Images::open(dir_ / "data");
};

TEST_F(ImagesOfADirectory, AreListedAlsoWhereSomebodyWasKilledWhileNamingOne)
{
    const auto image = take("mine:1");
    dir_.write("data/images/name-" + std::string(64, 'a') + ".json.new", "");
    const auto all = images_.list();
    ASSERT_TRUE(all) << all.error().line();
    EXPECT_THAT(*all, SizeIs(1));
    const auto removed = images_.remove(image);
    EXPECT_TRUE(removed) << removed.error().line();
    EXPECT_EQ(trees(), 0u);
}

TEST_F(ImagesOfADirectory, WhatAKilledRemovalLeftIsNoImage)
{
    const auto image = take("mine:1");
    const auto tree = dir_ / ("data/images/image-" + image.digest);
    // The first thing that goes is what says that it is whole.
    const UniqueFd told(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    ASSERT_GE(::inotify_add_watch(told.get(), tree.c_str(), IN_DELETE), 0);
    ASSERT_TRUE(images_.remove(image));
    alignas(inotify_event) std::array<char, 4096> events{};
    ASSERT_GT(::read(told.get(), events.data(), events.size()), 0);
    EXPECT_STREQ(reinterpret_cast<const inotify_event*>(events.data())->name, "ready");

    const auto again = take("mine:1");
    std::filesystem::remove(tree + "/ready");
    std::filesystem::remove(tree + "/layout/index.json");
    EXPECT_THAT(*images_.list(), IsEmpty());
    ASSERT_TRUE(images_.sweep());
    EXPECT_EQ(trees(), 0u);
    EXPECT_EQ(take("mine:1").digest, again.digest);
    EXPECT_TRUE(std::filesystem::exists(tree + "/layout/index.json"));
}

} // namespace
} // namespace berth::distribution
