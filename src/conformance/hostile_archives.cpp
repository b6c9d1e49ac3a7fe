// Archives that try to write elsewhere, to lie, or to never end. Each is refused before anything is written.

#include <fstream>

#include "base/io.hpp"
#include "conformance/archives.hpp"
#include "conformance/check.hpp"
#include "conformance/tar.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "hostile-archives";

/// Refused, and neither the directory nor the place above it has anything of it.
Check hostile(std::string name, std::string bytes, ArchiveLimits limits = {}, Code want = Code::Invalid)
{
    const auto run = [=](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        BERTH_TRY(const auto above, c.dir());
        BERTH_TRY([[maybe_unused]] const auto made, c.output(sandbox, fmt::format("mkdir {}/to", above)));
        BERTH_CHECK(refused("it", unpack(c, sandbox, above + "/to", bytes, limits), want));
        BERTH_TRY(const auto seen,
                  c.output(sandbox,
                           fmt::format("cd {}; find . | LC_ALL=C sort; ls -d /berth-evil 2>/dev/null; true",
                                       above)));
        return same("what is there afterwards", seen, ".\n./to\n");
    };
    return {kGroup, std::move(name), {Operation::Archive}, run};
}

/// The same for what is too much.
Check exhausting(std::string name, std::string bytes, ArchiveLimits limits)
{
    return hostile(std::move(name), std::move(bytes), limits, Code::Exhausted);
}

/// With a good member before it: refused as a whole.
Tar begun() { return Tar().directory("./").file("good", "x"); }

Status existing_link(Context& c, const std::string& link, const std::string& member)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto above, c.dir());
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(sandbox, fmt::format("cd {}; mkdir to out; echo kept > out/file; ln -s {} to/link",
                                            above, link)));
    (void)unpack(c, sandbox, above + "/to",
                 Tar().file(member, "overwritten").done()); // replaced or refused, both are well
    BERTH_TRY(const auto seen, c.output(sandbox, fmt::format("cd {}; find out; cat out/file", above)));
    return same("what the link led to", seen, "out\nout/file\nkept\n");
}

Status through_an_existing_link(Context& c) { return existing_link(c, "../out", "link/file"); }
Status over_an_existing_link(Context& c) { return existing_link(c, "../out/file", "link"); }

Status through_a_link_to_the_host(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_TRY(const auto outside, c.place().scratch());
    std::ofstream(outside + "/file") << "of the host";
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(sandbox, fmt::format("ln -s {} {}/link", outside, dir)));
    (void)unpack(c, sandbox, dir, Tar().file("link/file", "overwritten").done());
    (void)unpack(c, sandbox, dir + "/link", Tar().file("file", "overwritten").done());
    BERTH_TRY(const auto now, read_file(outside + "/file"));
    return same("the file of the host", now, "of the host");
}

Status directory_in_the_way(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(sandbox, fmt::format("mkdir -p {0}/name; echo x > {0}/name/kept", dir)));
    BERTH_CHECK(refused("a file over a directory", unpack(c, sandbox, dir, Tar().file("name", "x").done())));
    BERTH_TRY(const auto seen, c.output(sandbox, fmt::format("cat {}/name/kept", dir)));
    return same("what was in the directory", seen, "x\n");
}

Status links_are_kept(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_CHECK(unpack(
        c, sandbox, dir,
        Tar().symlink("absolute", "/usr/bin/env").symlink("up", "../../x").symlink("in", "file").done(),
        {.links = ExternalLinks::Keep}));
    BERTH_TRY(const auto seen,
              c.output(sandbox, fmt::format("cd {}; readlink absolute; readlink up; readlink in", dir)));
    return same("their targets", seen, "/usr/bin/env\n../../x\nfile\n");
}

Status links_are_dropped(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_CHECK(unpack(c, sandbox, dir,
                       Tar()
                           .symlink("absolute", "/usr/bin/env")
                           .symlink("up", "../../x")
                           .symlink("in", "file")
                           .file("file", "x")
                           .done(),
                       {.links = ExternalLinks::Drop}));
    BERTH_TRY(const auto seen, c.output(sandbox, fmt::format("cd {}; ls -A", dir)));
    return same("what is left", seen, "file\nin\n");
}

std::string damaged()
{
    std::string bytes = begun().done();
    bytes[10] = 'X'; // the checksum no longer holds
    return bytes;
}

std::string many()
{
    Tar tar;
    for (int i = 0; i < 50; ++i) tar.file(fmt::format("f{}", i), "");
    return tar.done();
}

} // namespace

std::vector<Check> hostile_archive_checks()
{
    const std::vector<Need> needs{Operation::Archive};
    const ArchiveLimits no_links{.links = ExternalLinks::Refuse};
    return {
        hostile("an absolute name", begun().file("/berth-evil", "x").done()),
        hostile("a name with '..'", begun().file("../evil", "x").done()),
        hostile("a name with '..' in its middle", begun().directory("d/").file("d/../../evil", "x").done()),
        hostile("a name of only '..'", begun().directory("..").done()),
        hostile("an extended name with '..'", begun().pax("path", "../evil").file("fine", "x").done()),
        hostile("a long name with '..'",
                begun().long_name("../" + std::string(120, 'e')).file("fine", "x").done()),
        hostile("a name with a backslash", begun().file("..\\evil", "x").done()),
        hostile("a name with a drive letter", begun().file("C:/evil", "x").done()),
        hostile("a hard link", begun().header({.name = "evil", .type = '1', .link = "/etc/passwd"}).done()),
        hostile("a character device", begun().header({.name = "evil", .type = '3'}).done()),
        hostile("a block device", begun().header({.name = "evil", .type = '4'}).done()),
        hostile("a pipe", begun().header({.name = "evil", .type = '6'}).done()),
        hostile("a root that is a file", Tar().file(".", "x").done()),
        hostile("a root that is a link", Tar().symlink(".", "/tmp").done()),
        hostile("the same file twice", begun().file("twice", "1").file("twice", "2").done()),
        hostile("a file and a directory of one name", begun().file("twice", "1").directory("twice/").done()),
        hostile("a member below a link", begun().symlink("link", "/tmp").file("link/evil", "x").done()),
        hostile("a member below a link that comes later",
                begun().file("link/evil", "x").symlink("link", "/tmp").done()),
        hostile("a member below a file", begun().file("file", "x").file("file/evil", "x").done()),
        hostile("an absolute link where links out are refused", begun().symlink("link", "/etc/passwd").done(),
                no_links),
        hostile("a link that climbs out where links out are refused",
                begun().symlink("link", "../../etc/passwd").done(), no_links),
        hostile("a damaged header", damaged()),
        hostile("something that is no archive", std::string(4096, 'z')),
        hostile("an archive that ends in a file",
                Tar().file("good", "x").header({.name = "cut", .size = 100'000}).so_far() + "short"),
        exhausting("a file that claims to be endless",
                   begun().header({.name = "huge", .size = 8'000'000'000ULL}).content("x").done(), {}),
        exhausting("more members than allowed", many(), {.members = 20}),
        exhausting("more bytes inside than allowed", begun().file("big", std::string(300'000, 'x')).done(),
                   {.extracted = 100_KiB}),
        exhausting("more bytes than allowed", begun().file("big", std::string(300'000, 'x')).done(),
                   {.input = 100_KiB}),
        {kGroup, "an existing link is not a way out", needs, through_an_existing_link},
        {kGroup, "an existing link is not written through", needs, over_an_existing_link},
        {kGroup, "a link to the host leads nowhere", needs, through_a_link_to_the_host},
        {kGroup, "a directory in the way of a file stays", needs, directory_in_the_way},
        {kGroup, "links out are kept as they are where that is asked for", needs, links_are_kept},
        {kGroup, "links out are left away where that is asked for", needs, links_are_dropped},
    };
}

} // namespace berth::conformance
