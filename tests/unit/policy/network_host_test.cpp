#include "policy/network_host.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::policy {
namespace {

TEST(Host, HasOneSpelling)
{
    const std::pair<std::string_view, std::string_view> table[] = {
        {"pypi.org", "pypi.org"},
        {"PyPI.ORG", "pypi.org"},
        {"*.NpmJS.org", "*.npmjs.org"},
        {"localhost", "localhost"},
        {"1.2.3.4", "1.2.3.4"},
        {"10.0.0.0/8", "10.0.0.0/8"},
        {"1.2.3.4/32", "1.2.3.4"},
        {"2001:DB8:0:0::1", "2001:db8::1"},
        {"2001:db8::/32", "2001:db8::/32"},
        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
        {"_dmarc.a-b.c1", "_dmarc.a-b.c1"},
        {"3com.com", "3com.com"},
    };
    for (const auto& [text, canonical] : table)
        EXPECT_EQ(canonical_host(text).value_or("refused"), canonical) << text;
}

TEST(Host, RefusesWhatIsReadInTwoWays)
{
    for (const std::string_view bad : {"",
                                       "*",
                                       "*.",
                                       "a..b",
                                       ".a",
                                       "a.",
                                       "-a.b",
                                       "a-.b",
                                       "a b",
                                       "a.*.b",
                                       "*a.b",
                                       "bücher.de",
                                       "http://a.b",
                                       "a.b:443",
                                       "a.b/c",
                                       "[::1]",
                                       "1.2.3",
                                       "1.2.3.4.5",
                                       "256.1.1.1",
                                       "010.1.1.1",
                                       "2130706433",
                                       "0x7f.1",
                                       "0x7f000001",
                                       "1.2.3.0x4",
                                       "0.0.0.0/0",
                                       "::/0",
                                       "10.0.0.1/8",
                                       "10.0.0.0/33",
                                       "10.0.0.0/",
                                       "10.0.0.0/+8",
                                       "*.1.2.3.4",
                                       "::ffff:127.0.0.1",
                                       "::ffff:0:0/96",
                                       "fe80::1%lo",
                                       "1::/129",
                                       "user@a.b",
                                       "a.b\n"})
        EXPECT_FALSE(canonical_host(bad)) << bad;
    EXPECT_FALSE(canonical_host(std::string_view("a\0.b", 4)));
    EXPECT_FALSE(canonical_host(std::string_view("1.2.3.4\0/8", 10)));
    EXPECT_FALSE(canonical_host(std::string(64, 'a') + ".org"));
    std::string lengthy = "a";
    for (int i = 0; i < 127; ++i) lengthy += ".a";
    EXPECT_FALSE(canonical_host(lengthy));
}

TEST(Host, CoversWhatItMeans)
{
    struct Case {
        std::string_view outer;
        std::string_view inner;
        bool covers;
    };
    constexpr Case kCases[] = {
        {"a.org", "a.org", true},
        {"a.org", "b.a.org", false},
        {"*.a.org", "b.a.org", true},
        {"*.a.org", "c.b.a.org", true},
        {"*.a.org", "*.b.a.org", true},
        {"*.a.org", "a.org", false},
        {"*.a.org", "xa.org", false},
        {"b.a.org", "*.a.org", false},
        {"*.b.a.org", "*.a.org", false},
        {"10.0.0.0/8", "10.1.2.3", true},
        {"10.0.0.0/8", "10.1.0.0/16", true},
        {"10.1.0.0/16", "10.0.0.0/8", false},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.0.0.0/8", "*.a.org", false},
        {"2001:db8::/32", "2001:db8::1", true},
        {"2001:db8::/32", "10.0.0.1", false},
        {"*.a.org", "10.0.0.1", false},
    };
    for (const auto& [outer, inner, covers] : kCases)
        EXPECT_EQ(host_covers(outer, inner), covers) << outer << " over " << inner;
}

} // namespace
} // namespace berth::policy
