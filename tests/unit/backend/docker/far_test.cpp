#include <gtest/gtest.h>

#include "backend/docker/changes.hpp"
#include "backend/docker/container.hpp"
#include "backend/docker/exec_stream.hpp"
#include "backend/docker/far_files.hpp"
#include "backend/docker/holdings.hpp"
#include "core/admit.hpp"
#include "image/tar_writer.hpp"

namespace berth::docker {
namespace {

using namespace std::chrono_literals;
using From = ExecStream::Piece::From;

std::string piece(char stream, const std::string& bytes)
{
    std::string out{stream,
                    '\0',
                    '\0',
                    '\0',
                    '\0',
                    '\0',
                    static_cast<char>(bytes.size() >> 8),
                    static_cast<char>(bytes.size())};
    return out + bytes;
}

TEST(ExecStream, TakesWholePiecesAndWaitsForTheRest)
{
    std::string bytes = piece(1, "out") + piece(2, "err") + piece(1, "") + piece(1, "late").substr(0, 9);
    auto one = take_piece(bytes);
    ASSERT_TRUE(one) << one.error().line();
    EXPECT_EQ(one->from, From::Out);
    EXPECT_EQ(one->bytes, "out");
    one = take_piece(bytes);
    EXPECT_EQ(one->from, From::Err);
    EXPECT_EQ(one->bytes, "err");
    one = take_piece(bytes);
    EXPECT_EQ(one->from, From::Nobody) << "an empty one is none, and the last is not whole";
    bytes += "ate";
    EXPECT_EQ(take_piece(bytes)->bytes, "late");
    EXPECT_EQ(bytes, "");
}

TEST(ExecStream, RefusesWhatNoEngineSends)
{
    for (std::string bytes : {std::string("HTTP/1.1 500 Oops"), std::string("\x01\0\0\0\x7f\0\0\0", 8),
                              std::string("\x09\0\0\0\0\0\0\1x", 9), std::string("\x01\1\0\0\0\0\0\1x", 9)})
        EXPECT_FALSE(take_piece(bytes)) << bytes;
    std::string bytes = piece(3, "no space left on device");
    const auto failed = take_piece(bytes);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::Exhausted);
}

TEST(FarFiles, FindsTheFileOfAnArchiveAndNothingElse)
{
    namespace tar = image::tar;
    const std::string file =
        tar::header({.name = "passwd", .size = 5}) + "root:" + tar::padding(5) + tar::end();
    EXPECT_EQ(first_file(file).value_or("none"), "root:");
    const std::string long_name(200, 'n');
    const std::string pax = tar::header({.name = long_name, .size = 2}) + "in" + tar::padding(2) + tar::end();
    EXPECT_EQ(first_file(pax).value_or("none"), "in");
    const std::string link =
        tar::header({.name = "passwd", .kind = image::TarMember::Kind::Symlink, .target = "/etc/shadow"}) +
        tar::end();
    EXPECT_EQ(first_file(link).error().code, Code::NotFound);
    EXPECT_EQ(first_file("").error().code, Code::NotFound);
    EXPECT_EQ(first_file(file.substr(0, 514)).error().code, Code::Unavailable);
    EXPECT_FALSE(first_file(std::string(512, 'z')));
}

TEST(EngineIds, AreDigitsAndNothingThatChangesARequest)
{
    EXPECT_TRUE(check_engine_id("0123456789abcdef"));
    for (const std::string id : {"", "../images", "a b", "a\r\nX: y", "ABC"})
        EXPECT_FALSE(check_engine_id(id));
    EXPECT_FALSE(check_engine_id(std::string(1000, 'a')));
    const auto lied = json::parse(R"({"Id":"../x","State":{},"Config":{}})");
    EXPECT_FALSE(parse_container(*lied));
}

TEST(EngineMoments, AreReadWithTheirFractionAndZone)
{
    const auto base = parse_moment("1970-01-02T00:00:01Z");
    ASSERT_TRUE(base);
    EXPECT_EQ(base->time_since_epoch(), 86'401s);
    EXPECT_EQ(parse_moment("1970-01-02T00:00:01.5Z")->time_since_epoch(), 86'401s + 500ms);
    EXPECT_EQ(parse_moment("1970-01-02T02:00:01.000000001+02:00")->time_since_epoch(), 86'401s + 1ns);
    EXPECT_EQ(parse_moment("1970-01-01T19:00:01-05:00")->time_since_epoch(), 86'401s);
    for (const char* bad : {"", "soon", "1970-01-02T00:00:01", "1970-01-02T00:00:01.5"})
        EXPECT_FALSE(parse_moment(bad)) << bad;
}

TEST(FarHoldings, SayThatNobodyPutsWallsAroundCommandsElsewhere)
{
    const auto have = hold({.memory = true, .pids = true, .cpus = true, .far = true});
    SandboxSpec spec;
    spec.id = "x";
    spec.policy = *policy::preset("read-only");
    const auto refused = admit(spec, have);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().line().find("on another machine"), std::string::npos) << refused.error().line();
    spec.policy = *policy::preset("sandbox");
    EXPECT_TRUE(admit(spec, have)) << admit(spec, have).error().line();
}

} // namespace
} // namespace berth::docker
