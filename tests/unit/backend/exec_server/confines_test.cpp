#include "backend/exec_server/confines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/exec_server/position.hpp"
#include "base/unique_fd.hpp"
#include "policy/target.hpp"

namespace berth::exec_server {
namespace {

using codex::FileAccess;
using testing::HasSubstr;

const Layout kLayout = layout_of("/srv/boxes", "sbx_one", "/srv/boxes/program/relay-1");

policy::Policy rules(std::vector<std::pair<policy::Access, const char*>> all)
{
    policy::Policy out;
    for (const auto& [access, text] : all) out.files.push_back({access, *policy::parse_target(text)});
    return out;
}

/// "read root", "write /x", one a line.
std::string text_of(const policy::Policy& policy, const policy::Policy& around)
{
    const auto confines = confine(policy, around, kLayout);
    if (!confines) return "refused: " + confines.error().message;
    if (!*confines) return "null";
    static constexpr const char* accesses[] = {"deny", "read", "write"};
    static constexpr const char* kinds[] = {"root",   "minimal",   "project_roots",
                                            "tmpdir", "slash_tmp", "unknown"};
    std::string out;
    for (const auto& entry : (*confines)->permissions.entries) {
        out += accesses[static_cast<int>(entry.access)];
        if (const auto* special = std::get_if<codex::SpecialPath>(&entry.path))
            out += fmt::format(" {}{}{}\n", kinds[static_cast<int>(special->kind)],
                               special->subpath.empty() ? "" : "/", special->subpath);
        else if (const auto* exact = std::get_if<codex::ExactPath>(&entry.path))
            out += " " + exact->path + "\n";
        else
            out += fmt::format(" {}{}\n", std::get<codex::GlobPath>(entry.path).below_roots ? "roots:" : "",
                               std::get<codex::GlobPath>(entry.path).pattern);
    }
    return out;
}
std::string text_of(const policy::Policy& policy) { return text_of(policy, policy); }

TEST(Confine, GivesAPrivateRootProgramsAndItsOwnDirectories)
{
    EXPECT_EQ(text_of(*policy::preset("sandbox")), "read minimal\nwrite project_roots\n"
                                                   "write /srv/boxes/sbx_one/tmp\nread /srv/boxes/program\n");
}

TEST(Confine, KeepsSymbolsAndHidesOtherSandboxes)
{
    using enum policy::Access;
    const auto text = text_of(rules({{Read, ":root"},
                                     {Write, ":workspace_roots"},
                                     {Write, ":tmpdir"},
                                     {Deny, ":workspace_roots/secrets"},
                                     {Deny, ":workspace_roots/**/*.env"},
                                     {Deny, "/etc/shadow"}}));
    EXPECT_EQ(text, "read root\nwrite project_roots\nwrite slash_tmp\nwrite tmpdir\n"
                    "deny project_roots/secrets\ndeny roots:**/*.env\ndeny /etc/shadow\n"
                    "deny /srv/boxes\nread project_roots\nread /srv/boxes/program\n");
    // What no rule covers cannot be reached: the workspace is none that is covered here.
    EXPECT_THAT(text_of(rules({{Write, ":tmpdir"}})), testing::Not(HasSubstr("project_roots")));
}

TEST(Confine, HasARootOfItsOwnForACommandOfAPrivateOne)
{
    const auto sandbox = *policy::preset("sandbox");
    EXPECT_EQ(text_of(*policy::preset("read-only"), sandbox),
              "read minimal\nread project_roots\nread /srv/boxes/sbx_one/tmp\nread /srv/boxes/program\n");
}

TEST(Confine, SendsNothingOnlyWhereThatWasAskedForInSoManyWords)
{
    auto full = *policy::preset("full-access");
    EXPECT_THAT(text_of(full), HasSubstr("refused"));
    full.network = policy::Network::Host;
    EXPECT_EQ(text_of(full), "null");
    auto sandbox = *policy::preset("sandbox");
    sandbox.network = policy::Network::Host;
    EXPECT_NE(text_of(sandbox), "null");
    EXPECT_NE(text_of(*policy::preset("sandbox"), full), "null");
}

TEST(Confine, RefusesWhatItHasNoWordsFor)
{
    using enum policy::Access;
    EXPECT_THAT(text_of(rules({{Write, ":root"}})), HasSubstr("refused: write :root"));
    EXPECT_THAT(text_of(rules({{Read, "/x/*.c"}})), HasSubstr("refused: read /x/*.c"));
}

TEST(Position, IsReadAsItWasWritten)
{
    char path[] = "/tmp/berth-position-XXXXXX";
    ASSERT_NE(::mkdtemp(&path[0]), nullptr);
    const UniqueFd directory(::open(&path[0], O_RDONLY | O_DIRECTORY));
    EXPECT_EQ(read_position(directory.get()).error().code, Code::NotFound);
    ASSERT_TRUE(write_position(directory.get(),
                               {.seq = 9, .spent = 8, .sent = 7, .taken = 6, .partial = "long one"}));
    ASSERT_TRUE(
        write_position(directory.get(), {.seq = 10, .spent = 8, .sent = 7, .taken = 6, .partial = "ab"}));
    const auto back = read_position(directory.get());
    ASSERT_TRUE(back);
    EXPECT_EQ(back->seq, 10u);
    EXPECT_EQ(back->partial, "ab");
    ::unlinkat(directory.get(), "position", 0);
    ::rmdir(&path[0]);
}

} // namespace
} // namespace berth::exec_server
