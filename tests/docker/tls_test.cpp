// The same engine through TCP and TLS on loopback, as the environment or a context of docker's client names
// it, and what is said when the two sides do not trust each other.

#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;

/// The environment for as long as it lives; empty values are unset.
class With {
public:
    explicit With(const std::map<std::string, std::string>& values)
    {
        for (const auto& [name, value] : values) {
            const char* now = std::getenv(name.c_str());
            before_[name] = now == nullptr ? "" : now;
            set(name, value);
        }
    }
    With(const With&) = delete;
    With& operator=(const With&) = delete;
    ~With()
    {
        for (const auto& [name, value] : before_) set(name, value);
    }

private:
    static void set(const std::string& name, const std::string& value)
    {
        if (value.empty())
            ::unsetenv(name.c_str());
        else
            ::setenv(name.c_str(), value.c_str(), 1);
    }
    std::map<std::string, std::string> before_;
};

class DockerTls : public Docker {
protected:
    void SetUp() override
    {
        Docker::SetUp();
        if (IsSkipped()) return;
        auto told = read_file(engine().directory() + "/tcp");
        while (told && told->ends_with('\n')) told->pop_back();
        if (!told || told->empty())
            GTEST_SKIP() << "the engine does not listen with TLS: apt install openssl";
        host_ = "tcp://" + *told;
    }
    static std::string certificates(const char* of = "certs") { return engine().directory() + "/" + of; }

    /// What a berth with this environment says of making a sandbox.
    Result<Acquired> made_with(const std::map<std::string, std::string>& environment,
                               const std::string& key = "tls")
    {
        const With with(environment);
        auto own = open();
        return own->run(own->lifecycle().acquire(wish(key)));
    }
    Error refused_with(const std::map<std::string, std::string>& environment)
    {
        const auto made = made_with(environment, "never"); // one that runs needs no engine
        EXPECT_FALSE(made);
        return made ? Error{} : made.error();
    }
    std::string host_;
};

TEST_F(DockerTls, WorksWithTheCertificatesThatTheEnvironmentNames)
{
    const With with(
        {{"DOCKER_HOST", host_}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", certificates()}});
    berth_ = open();
    made("tls");
    EXPECT_EQ(shell("tls", "echo over tls"), "over tls\n");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("tls", 1s)));
    EXPECT_EQ(acquire(wish("tls"))->tier, Tier::Started);
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy("tls")));
}

TEST_F(DockerTls, WorksWithAContextOfTheClient)
{
    const std::string config = data_ + "/client";
    const std::string id = sha256_hex("far");
    std::filesystem::create_directories(config + "/contexts/meta/" + id);
    std::filesystem::create_directories(config + "/contexts/tls/" + id + "/docker");
    for (const char* name : {"ca.pem", "cert.pem", "key.pem"})
        std::filesystem::copy_file(certificates() + "/" + name,
                                   config + "/contexts/tls/" + id + "/docker/" + name);
    std::ofstream(config + "/contexts/meta/" + id + "/meta.json")
        << R"({"Name":"far","Metadata":{},"Endpoints":{"docker":{"Host":")" << host_
        << R"(","SkipTLSVerify":false}}})";
    std::ofstream(config + "/config.json") << R"({"currentContext":"far"})";
    const auto configured = made_with({{"DOCKER_HOST", ""}, {"DOCKER_CONFIG", config}});
    EXPECT_TRUE(configured) << configured.error().line();
    const auto named = made_with({{"DOCKER_HOST", ""}, {"DOCKER_CONFIG", config}, {"DOCKER_CONTEXT", "far"}});
    ASSERT_TRUE(named) << named.error().line();
    EXPECT_EQ(named->tier, Tier::Attached) << "the same engine, the same sandbox";
    const auto missing =
        refused_with({{"DOCKER_HOST", ""}, {"DOCKER_CONFIG", config}, {"DOCKER_CONTEXT", "farther"}});
    EXPECT_THAT(missing.line(), HasSubstr("no docker context 'farther'"));
}

TEST_F(DockerTls, AnEngineOfAnotherAuthorityIsNotTrusted)
{
    const auto error = refused_with(
        {{"DOCKER_HOST", host_}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", certificates("other")}});
    EXPECT_EQ(error.code, Code::Unavailable) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("certificate is not good by the ca.pem in " + certificates("other")));
}

TEST_F(DockerTls, WithoutACertificateOfOursTheEngineRefuses)
{
    const std::string half = data_ + "/half";
    std::filesystem::create_directory(half);
    std::filesystem::copy_file(certificates() + "/ca.pem", half + "/ca.pem");
    const auto error =
        refused_with({{"DOCKER_HOST", host_}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", half}});
    // Whether its words come through before the end of the connection is up to the two kernels.
    EXPECT_TRUE(error.code == Code::Denied || error.code == Code::Unavailable) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("cert.pem and key.pem are looked for in " + half));
}

TEST_F(DockerTls, ACertificateOfAnotherAuthorityIsRefused)
{
    const std::string mixed = data_ + "/mixed";
    std::filesystem::create_directory(mixed);
    std::filesystem::copy_file(certificates() + "/ca.pem", mixed + "/ca.pem");
    for (const char* name : {"cert.pem", "key.pem"})
        std::filesystem::copy_file(certificates("other") + "/" + name, mixed + "/" + name);
    const auto error =
        refused_with({{"DOCKER_HOST", host_}, {"DOCKER_TLS_VERIFY", "1"}, {"DOCKER_CERT_PATH", mixed}});
    EXPECT_TRUE(error.code == Code::Denied || error.code == Code::Unavailable) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("cert.pem and key.pem are looked for in " + mixed));
}

TEST_F(DockerTls, PlainWordsToATlsPortAreExplained)
{
    const auto error = refused_with({{"DOCKER_HOST", host_}});
    EXPECT_EQ(error.code, Code::Unavailable) << error.line();
    EXPECT_THAT(error.line(), HasSubstr("speaks TLS only"));
}

} // namespace
} // namespace berth
