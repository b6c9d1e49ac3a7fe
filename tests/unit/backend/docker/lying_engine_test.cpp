// Whatever listens where an engine should: nothing it says takes our memory or time, and every lie is an
// error.

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "backend/docker/engine.hpp"
#include "backend/docker/exec_stream.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/own_container.hpp"

namespace berth::docker {
namespace {

using namespace std::chrono_literals;

/// Answers each connection with what `answer` says to its first bytes.
class Liar {
public:
    using Say = std::function<bool(std::string_view)>;
    using Answer = std::function<void(const std::string& request, const Say& say)>;

    explicit Liar(Answer answer) : answer_(std::move(answer))
    {
        char directory[] = "/tmp/berth-liar-XXXXXX";
        directory_ = ::mkdtemp(&directory[0]);
        listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un place{};
        place.sun_family = AF_UNIX;
        std::memcpy(&place.sun_path[0], path().c_str(), path().size() + 1);
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
            ::listen(listener_.get(), 16) != 0)
            std::abort();
        thread_ = std::thread([this] { serve(); });
    }
    Liar(const Liar&) = delete;
    Liar& operator=(const Liar&) = delete;
    ~Liar()
    {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
        ::unlink(path().c_str());
        ::rmdir(directory_.c_str());
    }
    [[nodiscard]] Engine engine() const { return Engine(parse_engine("unix://" + path())); }

private:
    [[nodiscard]] std::string path() const { return directory_ + "/sock"; }
    void serve() const
    {
        for (;;) {
            const UniqueFd one(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!one) return;
            char request[65536];
            const ssize_t n = ::recv(one.get(), &request[0], sizeof request, 0);
            if (n <= 0) continue;
            const Say say = [&](std::string_view bytes) {
                return ::send(one.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                       static_cast<ssize_t>(bytes.size());
            };
            const std::string asked(&request[0], static_cast<std::size_t>(n));
            if (asked.find(" /version ") != std::string::npos && !lies_of_version_)
                say(document(R"({"ApiVersion":"1.41","MinAPIVersion":"1.12"})"));
            else
                answer_(asked, say);
        }
    }

public:
    static std::string document(const std::string& body)
    {
        return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                           body.size(), body);
    }
    bool lies_of_version_ = false;

private:
    Answer answer_;
    std::string directory_;
    UniqueFd listener_;
    std::thread thread_;
};

Error asked(const Liar::Answer& answer)
{
    const Liar liar(answer);
    const auto engine = liar.engine();
    const auto got = inspect_container(engine, "x");
    EXPECT_FALSE(got);
    return got ? Error{} : got.error();
}

TEST(LyingEngine, SaysWhatIsNoHttp)
{
    EXPECT_EQ(asked([](const auto&, const auto& say) { say("SSH-2.0-OpenSSH_9.2\r\n"); }).code,
              Code::Unavailable);
    EXPECT_EQ(asked([](const auto&, const auto&) {}).code, Code::Unavailable) << "it hangs up";
}

TEST(LyingEngine, HasNotYetTakenAwayWhatRanBeforeItWasKilled)
{
    int asked = 0;
    const auto refuse = [](const auto& say, std::string_view why) {
        const auto body = fmt::format(R"({{"message":"{}"}})", why);
        say(fmt::format("HTTP/1.1 409 Conflict\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
                        body.size(), body));
    };
    {
        const Liar liar([&](const auto&, const auto& say) {
            if (++asked < 3)
                refuse(say, "task x: already exists");
            else
                say("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        });
        EXPECT_TRUE(start_container(liar.engine(), "x"));
    }
    EXPECT_EQ(asked, 3);
    const Liar other([&](const auto&, const auto& say) {
        ++asked;
        refuse(say, "no such thing");
    });
    EXPECT_EQ(start_container(other.engine(), "x").error().code, Code::Conflict);
}

TEST(LyingEngine, SendsItsLastChunkInPieces)
{
    const auto said = asked([](const auto&, const auto& say) {
        say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (const char* piece : {"0\r\n", "\r", "\n"}) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            say(piece);
        }
    });
    EXPECT_NE(said.message, "") << "an empty document is no container, and nobody dies of it";
}

TEST(LyingEngine, CutsItsAnswerOff)
{
    EXPECT_EQ(asked([](const auto&, const auto& say) {
                  say("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"Id\":");
              }).code,
              Code::Unavailable);
}

TEST(LyingEngine, HasAHeadOrABodyWithoutEnd)
{
    const std::string piece(65536, 'x');
    EXPECT_EQ(asked([&](const auto&, const auto& say) {
                  say("HTTP/1.1 200 OK\r\nX: ");
                  for (int i = 0; i < 64 && say(piece); ++i) {
                  }
              }).code,
              Code::Unavailable);
    std::size_t told = 0;
    EXPECT_EQ(asked([&](const auto&, const auto& say) {
                  say("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                  while (told < (std::size_t{256} << 20) && say(piece)) told += piece.size();
              }).code,
              Code::Exhausted);
    EXPECT_LT(told, std::size_t{64} << 20) << "nobody listened to the rest";
}

TEST(LyingEngine, GivesDocumentsThatAreNone)
{
    for (const std::string& body :
         {std::string("["), std::string(100'000, '['), std::string("null"), std::string(R"({"Id":7})"),
          std::string(R"({"Id":"../../x","State":{},"Config":{}})"),
          std::string(R"({"Id":"ab","State":{"Pid":-5},"Config":{}})"),
          std::string(R"({"Id":"ab","State":[],"Config":"x","HostConfig":3,"Mounts":{}})")})
        asked([&](const auto&, const auto& say) { say(Liar::document(body)); });
}

TEST(LyingEngine, TellsNoVersionThatIsOne)
{
    for (const char* body :
         {"{}", "x", R"({"ApiVersion":7})", R"({"ApiVersion":"2.0"})", R"({"ApiVersion":"1.5"})"}) {
        Liar liar([&](const auto&, const auto& say) { say(Liar::document(body)); });
        liar.lies_of_version_ = true;
        EXPECT_FALSE(liar.engine().get("/info")) << body;
    }
}

TEST(Engine, ThatIsTooOldOrTooNewIsRefusedByItsVersion)
{
    const auto asks = [](const std::string& version, std::string& heard) {
        Liar liar([&](const std::string& asked, const auto& say) {
            heard = asked.substr(0, asked.find('\r'));
            say(Liar::document(heard.find("/version") != std::string::npos ? version : "{}"));
        });
        liar.lies_of_version_ = true;
        return liar.engine().get("/info");
    };
    std::string heard;
    const auto old = asks(R"({"ApiVersion":"1.20","MinAPIVersion":"1.12"})", heard);
    ASSERT_FALSE(old);
    EXPECT_EQ(old.error().code, Code::Unsupported);
    EXPECT_NE(old.error().message.find("older than 1.24"), std::string::npos) << old.error().message;
    EXPECT_EQ(heard, "GET /version HTTP/1.1") << "nothing else was asked";
    const auto late = asks(R"({"ApiVersion":"1.99","MinAPIVersion":"1.60"})", heard);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Code::Unsupported);
    EXPECT_NE(late.error().message.find("newer than 1.47"), std::string::npos) << late.error().message;
    EXPECT_TRUE(asks(R"({"ApiVersion":"1.99","MinAPIVersion":"1.24"})", heard));
    EXPECT_EQ(heard, "GET /v1.47/info HTTP/1.1") << "a newer one speaks what we speak";
}

TEST(Engine, ThatIsReplacedByAnotherVersionIsAskedForItAgain)
{
    int minor = 41;
    std::string heard;
    Liar liar([&](const std::string& asked, const auto& say) {
        heard = asked.substr(0, asked.find('\r'));
        const auto mine = fmt::format("1.{}", minor);
        if (heard.find(" /version ") != std::string::npos)
            say(Liar::document(fmt::format(R"({{"ApiVersion":"{}","MinAPIVersion":"{}"}})", mine, mine)));
        else if (heard.find("/v" + mine + "/") != std::string::npos)
            say(Liar::document("{}"));
        else
            say("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n{\"message\":\"client version is not "
                "what it should be\"}");
    });
    liar.lies_of_version_ = true;
    const auto engine = liar.engine();
    for (const int now : {41, 44, 42}) {
        minor = now;
        const auto got = engine.get("/info");
        EXPECT_TRUE(got) << got.error().line();
        EXPECT_EQ(heard, fmt::format("GET /v1.{}/info HTTP/1.1", now));
    }
    minor = 99;
    EXPECT_EQ(engine.get("/info").error().code, Code::Unsupported);
}

TEST(LyingEngine, DamagesTheStreamOfACommand)
{
    const auto stream = [](const std::string& after) {
        const Liar liar([&](const std::string& asked, const auto& say) {
            if (asked.find("/start") == std::string::npos)
                say(Liar::document(R"({"Id":"abcd"})"));
            else
                say("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n" + after);
        });
        const auto engine = liar.engine();
        auto started = ExecStream::start(engine, "ab", {.words = {"x"}});
        EXPECT_TRUE(started) << started.error().line();
        const auto piece = started->read(system_clock().steady() + 20s);
        return piece ? "a piece" : std::string(piece.error().message);
    };
    EXPECT_NE(stream(std::string("\x01\0\0\0\xff\xff\xff\xff", 8)).find("damaged"), std::string::npos);
    EXPECT_NE(stream(std::string("\x01\0\0\0\0\0\0\x09half", 12)).find("cut off"), std::string::npos);
    const Liar refuses([&](const std::string& asked, const auto& say) {
        if (asked.find("/start") == std::string::npos)
            say(Liar::document(R"({"Id":"abcd"})"));
        else
            say("HTTP/1.1 409 Conflict\r\nContent-Length: 27\r\n\r\n{\"message\":\"it is stopped\"}\n");
    });
    const auto engine = refuses.engine();
    const auto refused = ExecStream::start(engine, "ab", {.words = {"x"}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict) << refused.error().line();
    EXPECT_NE(refused.error().line().find("it is stopped"), std::string::npos);
}

} // namespace
} // namespace berth::docker
