#include "server/codex/destinations.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

#include <gtest/gtest.h>

namespace berth::codex {

namespace {

bool special(const char* text)
{
    sockaddr_in four{};
    if (::inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        four.sin_family = AF_INET;
        return is_special(reinterpret_cast<const sockaddr&>(four));
    }
    sockaddr_in6 six{};
    EXPECT_EQ(::inet_pton(AF_INET6, text, &six.sin6_addr), 1) << text;
    six.sin6_family = AF_INET6;
    return is_special(reinterpret_cast<const sockaddr&>(six));
}

} // namespace

TEST(Destinations, KnowWhatIsNotOfTheInternet)
{
    for (const char* address : {"0.0.0.0",
                                "0.1.2.3",
                                "10.0.0.1",
                                "10.255.255.255",
                                "100.64.0.1",
                                "100.100.100.200",
                                "127.0.0.1",
                                "127.255.255.254",
                                "168.63.129.16",
                                "169.254.169.254",
                                "172.16.0.1",
                                "172.31.255.255",
                                "192.0.0.8",
                                "192.0.2.1",
                                "192.88.99.1",
                                "192.168.1.1",
                                "198.18.0.1",
                                "198.19.255.255",
                                "198.51.100.7",
                                "203.0.113.9",
                                "224.0.0.1",
                                "239.1.1.1",
                                "240.0.0.1",
                                "255.255.255.255",
                                "::",
                                "::1",
                                "::ffff:8.8.8.8",
                                "::ffff:127.0.0.1",
                                "::127.0.0.1",
                                "64:ff9b::7f00:1",
                                "64:ff9b:1::1",
                                "100::1",
                                "2001::1",
                                "2001:db8::1",
                                "2002:7f00:1::",
                                "fc00::1",
                                "fd00:ec2::254",
                                "fe80::1",
                                "fec0::1",
                                "ff02::1",
                                "3fff::1"})
        EXPECT_TRUE(special(address)) << address;
    for (const char* address :
         {"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1",
          "126.255.255.255", "128.0.0.1", "169.253.1.1", "172.15.255.255", "172.32.0.1", "192.167.1.1",
          "192.169.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "2606:4700::1111",
          "2a00:1450:4001::1", "2001:4860:4860::8888"})
        EXPECT_FALSE(special(address)) << address;
}

TEST(Destinations, AreWrittenAsHostAndPort)
{
    EXPECT_EQ(*parse_destination("Example.ORG"), (Destination{.host = "example.org", .port = 0}));
    EXPECT_EQ(*parse_destination("*.example.org:8443"), (Destination{.host = "*.example.org", .port = 8443}));
    EXPECT_EQ(*parse_destination("127.0.0.1:80"), (Destination{.host = "127.0.0.1", .port = 80}));
    EXPECT_EQ(*parse_destination("[::1]:80"), (Destination{.host = "::1", .port = 80}));
    EXPECT_EQ(*parse_destination("2001:db8::1"), (Destination{.host = "2001:db8::1", .port = 0}));
    for (const char* bad : {"", "*", "x:", "x:0", "x:65536", "[::1", "[::1]x", "10.0.0.0/8", "127.1", "a b",
                            "http://x", "x/y", "0x7f000001"})
        EXPECT_FALSE(parse_destination(bad)) << bad;
}

TEST(Destinations, CoverNamesPortsAndNothingElse)
{
    const Destinations all({{.host = "api.example.org", .port = 443},
                            {.host = "*.wide.org"},
                            {.host = "127.0.0.1", .port = 80}});
    EXPECT_TRUE(all.check("API.example.org", 443));
    EXPECT_TRUE(all.check("a.b.wide.org", 1));
    EXPECT_TRUE(all.check("127.0.0.1", 80));
    for (const auto& [host, port] : {std::pair{"api.example.org", 80},
                                     {"example.org", 443},
                                     {"wide.org", 1},
                                     {"x.api.example.org", 443},
                                     {"127.0.0.1", 81},
                                     {"127.0.0.2", 80}})
        EXPECT_EQ(all.check(host, static_cast<std::uint16_t>(port)).error().code, Code::Denied) << host;
    EXPECT_EQ(all.find("127.0.0.1", 80).value_or(std::vector<std::string>{}),
              std::vector<std::string>{"127.0.0.1"});
    // A name that leads to an address of this machine is not that address.
    const Destinations name({{.host = "localhost"}});
    EXPECT_EQ(name.find("localhost", 80).error().code, Code::Denied);
}

} // namespace berth::codex
