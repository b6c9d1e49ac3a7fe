// Directories of the host shown inside, and volumes that outlive their sandbox. A backend far away has none:
// then it says so before anything is made.

#include <filesystem>
#include <fstream>

#include "base/io.hpp"
#include "conformance/check.hpp"
#include "conformance/world.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "mounts";

/// A directory of the host that every user may enter, with a file in it.
Result<std::string> shown(Context& c)
{
    BERTH_TRY(auto path, c.place().scratch());
    std::ofstream(path + "/file") << "of the host";
    std::error_code failed;
    std::filesystem::permissions(path, std::filesystem::perms(0777), failed);
    std::filesystem::permissions(path + "/file", std::filesystem::perms(0666), failed);
    return path;
}

/// Nothing where the backend has no mounts, which it must say.
Result<std::optional<SandboxHandle>> with_mount(Context& c, const std::string& source, Mount::Mode mode)
{
    SandboxSpec spec = c.spec();
    spec.mounts.push_back({.source = source, .target = "/mnt/shown", .mode = mode});
    auto made = c.create(std::move(spec));
    if (made) return *std::move(made);
    if (made.error().code == Code::Unsupported) return std::optional<SandboxHandle>{};
    return std::unexpected(std::move(made).error());
}

Status reads(Context& c)
{
    BERTH_TRY(const auto path, shown(c));
    BERTH_TRY(const auto sandbox, with_mount(c, path, Mount::Mode::ReadOnly));
    if (!sandbox) return c.not_offered("mounts");
    BERTH_TRY(const auto said,
              c.output(*sandbox,
                       "cat /mnt/shown/file; echo; (echo x > /mnt/shown/file) 2>/dev/null || echo no; "
                       "(: > /mnt/shown/new) 2>/dev/null || echo no"));
    BERTH_CHECK(same("what it could do", said, "of the host\nno\nno\n"));
    BERTH_CHECK(refused("writing from outside", c.write(*sandbox, "/mnt/shown/file", "x"), Code::Denied));
    BERTH_TRY(const auto now, read_file(path + "/file"));
    return same("the file of the host", now, "of the host");
}

Status writes(Context& c)
{
    BERTH_TRY(const auto path, shown(c));
    BERTH_TRY(const auto sandbox, with_mount(c, path, Mount::Mode::ReadWrite));
    if (!sandbox) return c.not_offered("mounts");
    BERTH_TRY(const auto said,
              c.output(*sandbox, "printf 'of the sandbox' > /mnt/shown/file; cat /mnt/shown/file"));
    BERTH_CHECK(same("the file inside", said, "of the sandbox"));
    BERTH_TRY(const auto now, read_file(path + "/file"));
    BERTH_CHECK(same("the file of the host", now, "of the sandbox"));
    std::ofstream(path + "/later") << "given";
    BERTH_TRY(const auto later, c.output(*sandbox, "cat /mnt/shown/later"));
    return same("a file the host made later", later, "given");
}

Status copies(Context& c)
{
    BERTH_TRY(const auto path, shown(c));
    BERTH_TRY(const auto sandbox, with_mount(c, path, Mount::Mode::Copy));
    if (!sandbox) return c.not_offered("mounts as copies");
    BERTH_TRY(const auto said,
              c.output(*sandbox, "cd /mnt/shown; cat file; printf changed > file; : > new; cat file"));
    BERTH_CHECK(same("the file inside", said, "of the hostchanged"));
    BERTH_TRY(const auto now, read_file(path + "/file"));
    BERTH_CHECK(same("the file of the host", now, "of the host"));
    return expect(!std::filesystem::exists(path + "/new"), "a new file reached the host");
}

Status host_links(Context& c)
{
    BERTH_TRY(const auto outside, shown(c));
    BERTH_TRY(const auto path, shown(c));
    BERTH_TRY(const auto sandbox, with_mount(c, path, Mount::Mode::ReadWrite));
    if (!sandbox) return c.not_offered("mounts");
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(*sandbox, fmt::format("ln -s {}/file /mnt/shown/link", outside)));
    const auto bytes = c.read(*sandbox, "/mnt/shown/link");
    BERTH_CHECK(expect(!bytes || *bytes != "of the host", "a link in a mount led to the host"));
    (void)c.write(*sandbox, "/mnt/shown/link", "overwritten");
    BERTH_TRY(const auto now, read_file(outside + "/file"));
    return same("the file of the host", now, "of the host");
}

Status bad_ones(Context& c)
{
    BERTH_TRY(const auto path, shown(c));
    const auto refuses = [&](std::string_view what, std::vector<Mount> mounts) -> Status {
        SandboxSpec spec = c.spec();
        spec.mounts = std::move(mounts);
        return refused(what, c.create(std::move(spec)));
    };
    BERTH_CHECK(refuses("a mount over the root", {{.source = path, .target = "/"}}));
    BERTH_CHECK(refuses("a relative target", {{.source = path, .target = "relative"}}));
    BERTH_CHECK(refuses("a source that is not there", {{.source = path + "/missing", .target = "/mnt/x"}}));
    return refuses("two on one target",
                   {{.source = path, .target = "/mnt/x"}, {.source = path, .target = "/mnt/x/"}});
}

/// A sandbox of a key with a volume; nothing where there are none.
Result<std::optional<Acquired>> with_volume(World& world, std::string key, bool writable = true)
{
    auto request = world.request(std::move(key));
    request.spec.volumes.push_back(
        {.name = "cache", .target = "/mnt/cache", .writable = writable, .source = {}});
    auto made = world.c.await(world.life().acquire(std::move(request)));
    if (made) return *std::move(made);
    if (made.error().code == Code::Unsupported) return std::optional<Acquired>{};
    return std::unexpected(std::move(made).error());
}

const std::string kKey = "agent:conformance:volumes";

Status volume_outlives(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto first, with_volume(*world, kKey));
    if (!first) return c.not_offered("volumes");
    BERTH_TRY([[maybe_unused]] const auto said,
              c.output(World::handle(*first), "echo kept > /mnt/cache/file"));
    BERTH_TRY([[maybe_unused]] const auto gone, c.await(world->life().destroy(kKey)));
    BERTH_TRY(const auto second, with_volume(*world, kKey));
    BERTH_CHECK(expect(second && second->record.id() != first->record.id(), "it is the same sandbox"));
    BERTH_TRY(const auto bytes, c.output(World::handle(*second), "cat /mnt/cache/file"));
    return same("the file of the volume", bytes, "kept\n");
}

Status volumes_of_keys(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto first, with_volume(*world, kKey));
    if (!first) return c.not_offered("volumes");
    BERTH_TRY([[maybe_unused]] const auto said,
              c.output(World::handle(*first), "echo mine > /mnt/cache/file"));
    BERTH_TRY(const auto other, with_volume(*world, kKey + "-other"));
    BERTH_TRY(const auto seen, c.output(World::handle(*other), "ls /mnt/cache"));
    return same("the volume of that name of another key", seen, "");
}

Status volume_reads(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto made, with_volume(*world, kKey, false));
    if (!made) return c.not_offered("volumes");
    BERTH_TRY(const auto seen,
              c.output(World::handle(*made), "(: > /mnt/cache/file) 2>/dev/null || echo no"));
    return same("a write to a volume for reading", seen, "no\n");
}

Status volume_is_no_snapshot(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto first, with_volume(*world, kKey));
    if (!first) return c.not_offered("volumes");
    BERTH_TRY([[maybe_unused]] const auto said,
              c.output(World::handle(*first), "echo before > /mnt/cache/file"));
    BERTH_TRY(const auto taken, step("a snapshot", c.await(world->life().snapshot(kKey, {}))));
    BERTH_TRY([[maybe_unused]] const auto later,
              c.output(World::handle(*first), "echo after > /mnt/cache/file"));
    BERTH_TRY(const auto back, step("restoring", c.await(world->life().restore(taken.record.id, {}))));
    BERTH_TRY(const auto bytes, c.output(World::handle(back), "cat /mnt/cache/file"));
    return same("the file of the volume", bytes, "after\n");
}

} // namespace

std::vector<Check> mount_checks()
{
    return {
        {kGroup, "one for reading is read and not written", {}, reads},
        {kGroup, "one for writing is written through, both ways", {}, writes},
        {kGroup, "a copy is changed inside alone", {}, copies},
        {kGroup, "a link in one does not lead to the host", {}, host_links},
        {kGroup, "those that cannot be are refused", {}, bad_ones},
        {kGroup, "a volume outlives its sandbox", {}, volume_outlives},
        {kGroup, "a volume belongs to its key", {}, volumes_of_keys},
        {kGroup, "a volume for reading is not written", {}, volume_reads},
        {kGroup, "a volume is no part of a snapshot", {Operation::Snapshot}, volume_is_no_snapshot},
    };
}

} // namespace berth::conformance
