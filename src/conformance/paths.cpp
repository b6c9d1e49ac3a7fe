// A path of a sandbox stays in the sandbox. What is inside is hostile: it makes links to anywhere and swaps
// them while somebody looks. Nothing here may reach a file of the host, whichever way it is named.

#include <fstream>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "paths";

/// A file of the host that nobody inside may see, and a directory of the shared sandbox.
struct Scene {
    SandboxHandle sandbox;
    std::string dir;
    std::string outside; ///< absolute on the host
    std::string secret;
};

Result<Scene> set(Context& c)
{
    Scene out;
    BERTH_TRY(out.sandbox, c.shared());
    BERTH_TRY(out.dir, c.dir());
    BERTH_TRY(const auto scratch, c.place().scratch());
    out.outside = scratch + "/secret";
    out.secret = "of the host: " + random_hex(8);
    std::ofstream(out.outside) << out.secret;
    return out;
}

Status untouched(const Scene& scene)
{
    BERTH_TRY(const auto now, read_file(scene.outside));
    return same("the file of the host", now, scene.secret);
}

Status link_out_read(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("ln -s {} {}/link", scene.outside, scene.dir)));
    const auto bytes = c.read(scene.sandbox, scene.dir + "/link");
    return expect(!bytes || !bytes->contains(scene.secret), "a link led to a file of the host");
}

Status link_out_written(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("ln -s {} {}/link", scene.outside, scene.dir)));
    (void)c.write(scene.sandbox, scene.dir + "/link", "overwritten");
    return untouched(scene);
}

Status directory_link_out(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    const std::string above = scene.outside.substr(0, scene.outside.rfind('/'));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("ln -s {} {}/d", above, scene.dir)));
    auto& b = c.backend();
    const auto bytes = c.read(scene.sandbox, scene.dir + "/d/secret");
    BERTH_CHECK(expect(!bytes || !bytes->contains(scene.secret), "a link led to a directory of the host"));
    const auto listed = c.await(b.list_files(scene.sandbox, {.path = scene.dir + "/d"}));
    BERTH_CHECK(expect(!listed || listed->empty() || listed->front().name != "secret", "it was listed"));
    (void)c.write(scene.sandbox, scene.dir + "/d/secret", "overwritten");
    (void)c.await(b.remove_file(scene.sandbox, {.path = scene.dir + "/d/secret"}, RemoveTree::No));
    (void)c.await(b.remove_file(scene.sandbox, {.path = scene.dir + "/d/"}, RemoveTree::Yes));
    return untouched(scene);
}

Status dots_out(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    std::string up = scene.dir;
    for (int i = 0; i < 30; ++i) up += "/..";
    const auto bytes = c.read(scene.sandbox, up + scene.outside);
    BERTH_CHECK(expect(!bytes || !bytes->contains(scene.secret), "'..' led to a file of the host"));
    BERTH_TRY(const auto root, c.await(c.backend().list_files(scene.sandbox, {.path = up})));
    BERTH_TRY(const auto inside, c.await(c.backend().list_files(scene.sandbox, {.path = "/"})));
    BERTH_CHECK(same("the entries above the root", root.size(), inside.size()));
    (void)c.write(scene.sandbox, up + scene.outside, "overwritten");
    return untouched(scene);
}

Status dots_inside(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_CHECK(c.write(scene.sandbox, scene.dir + "/file", "x"));
    BERTH_TRY([[maybe_unused]] const auto made, c.output(scene.sandbox, "mkdir " + scene.dir + "/sub"));
    for (const std::string path : {"/sub/../file", "/./file", "//file", "/sub/.././sub/../file"}) {
        BERTH_TRY(const auto bytes, c.read(scene.sandbox, scene.dir + path));
        BERTH_CHECK(same(path, bytes, "x"));
    }
    return {};
}

Status absolute_link_inside(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_CHECK(c.write(scene.sandbox, scene.dir + "/file", "inside"));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("ln -s {0}/file {0}/link", scene.dir)));
    BERTH_TRY(const auto bytes, c.read(scene.sandbox, scene.dir + "/link"));
    return same("what an absolute link leads to", bytes, "inside");
}

Status leaf_link(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_CHECK(c.write(scene.sandbox, scene.dir + "/file", "target"));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("cd {}; ln -s file link; ln -s file second", scene.dir)));
    auto& b = c.backend();
    BERTH_CHECK(step("removing a link",
                     c.await(b.remove_file(scene.sandbox, {.path = scene.dir + "/link"}, RemoveTree::Yes))));
    BERTH_CHECK(step("moving a link", c.await(b.move_file(scene.sandbox, {.path = scene.dir + "/second"},
                                                          scene.dir + "/third"))));
    BERTH_TRY(const auto seen,
              c.output(scene.sandbox, fmt::format("cd {}; readlink third; cat file", scene.dir)));
    return same("the moved link and the file", seen, "file\ntarget");
}

Status loops(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format("cd {}; ln -s b a; ln -s a b", scene.dir)));
    BERTH_CHECK(refused("a loop of links", c.read(scene.sandbox, scene.dir + "/a")));
    return step("removing it",
                c.await(c.backend().remove_file(scene.sandbox, {.path = scene.dir}, RemoveTree::Yes)));
}

Status tree_with_links(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    const std::string above = scene.outside.substr(0, scene.outside.rfind('/'));
    const std::string script =
        "cd {0}; mkdir t kept; touch kept/file; ln -s ../kept t/in; ln -s {1} t/out; ln -s / t/root";
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(scene.sandbox, fmt::format(fmt::runtime(script), scene.dir, above)));
    BERTH_CHECK(step("removing the tree", c.await(c.backend().remove_file(
                                              scene.sandbox, {.path = scene.dir + "/t"}, RemoveTree::Yes))));
    BERTH_TRY(const auto kept, c.output(scene.sandbox, fmt::format("ls {}/kept", scene.dir)));
    BERTH_CHECK(same("what a link led to", kept, "file\n"));
    return untouched(scene);
}

Status swapped(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    const std::string above = scene.outside.substr(0, scene.outside.rfind('/'));
    auto swapper = Context::shell(
        fmt::format("cd {0}; mkdir real; echo mine > real/secret; ln -s {1} evil; mkdir spot; "
                    "echo ready; while [ ! -e stop ]; do rm -rf spot; ln -s {1} spot; rm spot; "
                    "cp -r real spot; done",
                    scene.dir, above));
    BERTH_CHECK(c.start(scene.sandbox, swapper));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(scene.sandbox, swapper.id, "ready", from));
    Status held;
    const auto until = Context::in(1500ms);
    while (held && system_clock().steady() < until) {
        const auto bytes = c.read(scene.sandbox, scene.dir + "/spot/secret");
        held = expect(!bytes || !bytes->contains(scene.secret), "a swapped link led to a file of the host");
        (void)c.write(scene.sandbox, scene.dir + "/spot/secret", "overwritten");
        (void)c.await(c.backend().remove_file(scene.sandbox, {.path = scene.dir + "/spot"}, RemoveTree::Yes));
    }
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(scene.sandbox, swapper.id))));
    BERTH_CHECK(held);
    return untouched(scene);
}

Status magic_links(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    for (const std::string path :
         {"/proc/self/root", "/proc/1/root", "/proc/thread-self/cwd", "/proc/self/fd/0"}) {
        const auto bytes = c.read(scene.sandbox, path + scene.outside);
        BERTH_CHECK(expect(!bytes, "{} led to a file of the host", path));
    }
    return refused("the memory of a process", c.read(scene.sandbox, "/proc/self/environ"));
}

Status bad_paths(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto& b = c.backend();
    BERTH_CHECK(refused("an empty path", c.await(b.read_file(sandbox, {.path = ""}, 1_MiB)), Code::Invalid));
    BERTH_CHECK(refused("a NUL in a path",
                        c.await(b.read_file(sandbox, {.path = std::string("/etc\0/x", 7)}, 1_MiB)),
                        Code::Invalid));
    BERTH_CHECK(refused("a name of 300 bytes",
                        c.await(b.write_file(sandbox, {.path = "/tmp/" + std::string(300, 'n')}, "x", {})),
                        Code::Invalid));
    BERTH_CHECK(
        refused("removing the root", c.await(b.remove_file(sandbox, {.path = "/"}, RemoveTree::Yes))));
    BERTH_CHECK(
        refused("removing '..'", c.await(b.remove_file(sandbox, {.path = "/tmp/.."}, RemoveTree::Yes))));
    return refused("writing to the root", c.await(b.write_file(sandbox, {.path = "/"}, "x", {})));
}

Status host_is_not_inside(Context& c)
{
    BERTH_TRY(const auto scene, set(c));
    BERTH_TRY(const auto seen,
              c.output(scene.sandbox, fmt::format("cat {} 2>/dev/null; true", scene.outside)));
    BERTH_CHECK(lacks("what a command sees", seen, scene.secret));
    return refused("the file of the host by its path", c.read(scene.sandbox, scene.outside));
}

} // namespace

std::vector<Check> path_checks()
{
    return {
        {kGroup, "a path of the host leads nowhere inside", {}, host_is_not_inside},
        {kGroup, "reading through a link does not leave", {}, link_out_read},
        {kGroup, "writing through a link does not leave", {}, link_out_written},
        {kGroup, "a linked directory does not lead out", {}, directory_link_out},
        {kGroup, "'..' does not lead out", {}, dots_out},
        {kGroup, "'.', '..' and double slashes work inside", {}, dots_inside},
        {kGroup, "an absolute link leads to the sandbox's own file", {}, absolute_link_inside},
        {kGroup, "removing and moving act on a link itself", {}, leaf_link},
        {kGroup, "a loop of links is refused and removed", {}, loops},
        {kGroup, "removing a tree follows no link", {}, tree_with_links},
        {kGroup, "links that are swapped meanwhile lead nowhere", {}, swapped},
        {kGroup, "the kernel's own links lead nowhere", {}, magic_links},
        {kGroup, "paths that name nothing are refused", {}, bad_paths},
    };
}

} // namespace berth::conformance
