// Snapshots of a backend: the files as they were, restorable as often as one likes, refused when damaged.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/sha256.hpp"
#include "conformance/archives.hpp"
#include "conformance/check.hpp"
#include "conformance/taken.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "snapshots";

/// A sandbox with a few files at home.
Result<SandboxHandle> furnished(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(sandbox, "mkdir -p ws/sub; echo data > ws/file; echo x > ws/run; chmod 755 ws/run; ln "
                                "-s /usr/bin/env ws/env; "
                                "echo deep > ws/sub/deep; : > ws/empty; echo gone > ws/gone; rm ws/gone"));
    return sandbox;
}

Result<std::string> tree(Context& c, const SandboxHandle& sandbox)
{
    BERTH_TRY(const auto path, c.at_home("ws"));
    return tree_of(c, sandbox, path);
}

Status round_trip(Context& c, const std::string& kind)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto before, tree(c, source));
    Taken taken(c);
    BERTH_CHECK(taken.take(source, kind));
    if (!kind.empty()) BERTH_CHECK(same("its kind", taken.told.kind, kind));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto after, tree(c, restored));
    return same("the tree", after, before);
}

Status best_kind(Context& c) { return round_trip(c, {}); }

Status every_kind(Context& c)
{
    const auto have = c.backend().capabilities();
    BERTH_CHECK(expect(!have.snapshots.empty(), "it claims snapshots and names no kind"));
    for (const auto& kind : have.snapshots) {
        if (std::ranges::find(have.restores, kind) == have.restores.end()) continue;
        if (auto done = round_trip(c, kind); !done)
            return std::unexpected(std::move(done).error().while_doing("kind " + kind));
    }
    return {};
}

Status source_goes_on(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto before, tree(c, source));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto after, tree(c, source));
    return same("the source's tree", after, before);
}

Status apart(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto one, taken.restore());
    BERTH_TRY(const auto two, taken.restore());
    BERTH_TRY(const auto path, c.at_home("ws/file"));
    BERTH_CHECK(c.write(source, path, "of the source"));
    BERTH_CHECK(c.write(one, path, "of one"));
    BERTH_TRY(const auto third, c.read(two, path));
    BERTH_CHECK(same("a second restored one", third, "data\n"));
    BERTH_TRY(const auto first, c.read(source, path));
    BERTH_CHECK(same("the source", first, "of the source"));
    BERTH_TRY(const auto late, taken.restore());
    BERTH_TRY(const auto fourth, c.read(late, path));
    return same("one restored later", fourth, "data\n");
}

Status chain(Context& c)
{
    BERTH_TRY(auto sandbox, furnished(c));
    std::string want = "data\n";
    BERTH_TRY(const auto path, c.at_home("ws/file"));
    std::vector<std::unique_ptr<Taken>> all;
    for (int i = 0; i < 3; ++i) {
        BERTH_TRY([[maybe_unused]] const auto said, c.output(sandbox, fmt::format("echo {} >> {}", i, path)));
        want += fmt::format("{}\n", i);
        all.push_back(std::make_unique<Taken>(c));
        BERTH_CHECK(all.back()->take(sandbox));
        BERTH_TRY(sandbox, all.back()->restore());
        BERTH_TRY(const auto bytes, c.read(sandbox, path));
        BERTH_CHECK(same("the file in the next one", bytes, want));
    }
    return {};
}

Status of_a_stopped_one(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto before, tree(c, source));
    BERTH_CHECK(step("stopping it", c.await(c.backend().stop(source, 1s))));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto after, tree(c, restored));
    BERTH_CHECK(same("the tree", after, before));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(source)));
    BERTH_CHECK(same("the source's state", found.state, State::Stopped));
    BERTH_TRY([[maybe_unused]] const auto started, step("starting it", c.await(c.backend().start(source))));
    BERTH_TRY(const auto again, tree(c, source));
    return same("the source's tree", again, before);
}

Status of_a_paused_one(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto before, tree(c, source));
    BERTH_CHECK(step("pausing it", c.await(c.backend().pause(source))));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto after, tree(c, restored));
    return same("the tree", after, before);
}

Status stopped_after_restoring(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto before, tree(c, restored));
    for (int i = 0; i < 2; ++i) {
        BERTH_CHECK(step("stopping it", c.await(c.backend().stop(restored, 1s))));
        BERTH_TRY([[maybe_unused]] const auto started,
                  step("starting it", c.await(c.backend().start(restored))));
    }
    BERTH_TRY(const auto after, tree(c, restored));
    return same("the tree after the second resume", after, before);
}

Status after_the_source(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto before, tree(c, source));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_CHECK(step("destroying the source", c.await(c.backend().destroy(source))));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto after, tree(c, restored));
    return same("the tree", after, before);
}

Status idempotent(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    const SnapshotTaken first = taken.told;
    BERTH_CHECK(taken.again(source));
    BERTH_CHECK(same("its kind", taken.told.kind, first.kind));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto path, c.at_home("ws/file"));
    BERTH_TRY(const auto bytes, c.read(restored, path));
    return same("the file", bytes, "data\n");
}

Status unknown_kind_taken(Context& c)
{
    BERTH_TRY(const auto source, c.own());
    BERTH_TRY(const auto directory, c.place().scratch());
    BERTH_CHECK(refused("an unknown kind",
                        c.await(c.backend().snapshot(source, {.id = make_snapshot_id(system_clock()),
                                                              .kind = "daytona_snapshot",
                                                              .directory = directory})),
                        Code::Unsupported));
    BERTH_TRY(const auto said, c.output(source, "echo lives"));
    BERTH_CHECK(same("the source", said, "lives\n"));
    return expect(std::filesystem::is_empty(directory), "something was written all the same");
}

Status nothing_made(Context& c, const CreateRequest& request)
{
    BERTH_TRY(const auto all, c.await(c.backend().scan()));
    return expect(
        std::ranges::none_of(all, [&](const Found& f) { return f.sandbox.sandbox == request.spec.id; }),
        "something of it is left");
}

Status unknown_kind_restored(Context& c)
{
    BERTH_TRY(const auto directory, c.place().scratch());
    CreateRequest request(c.spec());
    request.from = {
        .id = make_snapshot_id(system_clock()), .kind = "daytona_snapshot", .directory = directory};
    const auto made = c.create(request);
    BERTH_CHECK(refused("a snapshot of another backend", made, Code::Unsupported));
    BERTH_CHECK(contains("the refusal", made.error().message, "daytona_snapshot"));
    return nothing_made(c, request);
}

Status missing(Context& c)
{
    for (const auto& kind : c.backend().capabilities().restores) {
        BERTH_TRY(const auto directory, c.place().scratch());
        CreateRequest request(c.spec());
        request.from = {.id = make_snapshot_id(system_clock()), .kind = kind, .directory = directory};
        BERTH_CHECK(refused("a " + kind + " that is not there", c.create(request)));
        BERTH_CHECK(nothing_made(c, request));
    }
    return {};
}

/// The kinds that keep a file, which can be damaged.
Result<std::vector<std::string>> kinds_with_a_file(Context& c, const SandboxHandle& source)
{
    std::vector<std::string> out;
    for (const auto& kind : c.backend().capabilities().snapshots) {
        Taken taken(c);
        BERTH_CHECK(taken.take(source, kind));
        if (!taken.told.file.empty()) out.push_back(kind);
    }
    return out;
}

Status damaged(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto kinds, kinds_with_a_file(c, source));
    if (kinds.empty()) return c.skip("no kind of snapshot here keeps a file");
    for (const auto& kind : kinds) {
        Taken taken(c);
        BERTH_CHECK(taken.take(source, kind));
        const std::string path = taken.source.directory + "/" + taken.told.file;
        std::error_code ignored;
        const auto size = std::filesystem::file_size(path, ignored);
        for (const bool cut : {true, false}) {
            if (cut && ::truncate(path.c_str(), static_cast<off_t>(size / 2)) != 0)
                return fail_errno("cutting {}", path);
            if (!cut) {
                const UniqueFd file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
                BERTH_CHECK(write_all(file.get(), std::string(8192, 'z')));
            }
            const auto request = taken.request();
            BERTH_CHECK(refused(cut ? "half of it" : "something else", c.create(request)));
            BERTH_CHECK(nothing_made(c, request));
        }
    }
    return {};
}

Status truthful(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_TRY(const auto kinds, kinds_with_a_file(c, source));
    if (kinds.empty()) return c.skip("no kind of snapshot here keeps a file");
    for (const auto& kind : kinds) {
        Taken taken(c);
        BERTH_CHECK(taken.take(source, kind));
        BERTH_TRY(const auto bytes, berth::read_file(taken.source.directory + "/" + taken.told.file, 1_GiB));
        Sha256 hash;
        hash.update(bytes);
        BERTH_CHECK(same("its hash", taken.told.sha256, hash.hex()));
    }
    return {};
}

Status dropped(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    Taken taken(c);
    BERTH_CHECK(taken.take(source));
    BERTH_TRY(const auto restored, taken.restore());
    for (int i = 0; i < 2; ++i)
        BERTH_CHECK(step("dropping it", c.await(c.backend().drop_snapshot(taken.source))));
    BERTH_TRY(const auto no_snapshots, c.place().scratch());
    BERTH_TRY([[maybe_unused]] const auto freed,
              step("collecting", c.await(c.backend().collect(no_snapshots, false))));
    BERTH_TRY(const auto path, c.at_home("ws/file"));
    for (const auto& sandbox : {source, restored}) {
        BERTH_TRY(const auto bytes, c.read(sandbox, path));
        BERTH_CHECK(same("the file of one that still lives", bytes, "data\n"));
    }
    return {};
}

Status while_running(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    const auto exec = Context::shell(
        "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done; sleep 0.5; echo end; exit 6");
    BERTH_CHECK(c.start(source, exec));
    Taken taken(c);
    BERTH_TRY(const bool offered, taken.take_busy(source));
    if (!offered) return c.not_offered("snapshots while commands run");
    if (!taken.told.live_copy) {
        // Then its processes were ended, and that must be told as it was.
        BERTH_TRY(const auto all, c.await(c.backend().execs(source)));
        return expect(std::ranges::none_of(all, &ExecInfo::running), "it is said to run");
    }
    BERTH_TRY(const auto events, c.events(c.backend(), source, exec.id));
    std::string out, want;
    for (const auto& event : events) out += event.bytes;
    for (int i = 0; i < 3000; ++i) want += fmt::format("{}\n", i);
    BERTH_CHECK(same("its output", out, want + "end\n"));
    BERTH_TRY(const auto status, c.ended(source, exec.id));
    BERTH_CHECK(expect(status.code() == 6, "it ended with {}", to_string(status)));
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto path, c.at_home("ws/file"));
    BERTH_TRY(const auto bytes, c.read(restored, path));
    return same("the file", bytes, "data\n");
}

Status no_processes(Context& c)
{
    BERTH_TRY(const auto source, furnished(c));
    BERTH_CHECK(c.start(source, Context::shell("sleep 333")));
    Taken taken(c);
    BERTH_TRY(const bool offered, taken.take_busy(source));
    if (!offered) return c.not_offered("snapshots while commands run");
    BERTH_TRY(const auto restored, taken.restore());
    BERTH_TRY(const auto said,
              c.output(restored, "grep -l 'sleep.33[3]' /proc/[0-9]*/cmdline 2>/dev/null; echo end"));
    BERTH_CHECK(same("processes of the source", said, "end\n"));
    BERTH_TRY(const auto all, c.await(c.backend().execs(restored)));
    return same("execs but our own", all.size(), std::size_t{1});
}

} // namespace

std::vector<Check> snapshot_checks()
{
    const std::vector<Need> needs{Operation::Snapshot};
    return {
        {kGroup, "a tree comes back", needs, best_kind},
        {kGroup, "every kind that is made and restored brings it back", needs, every_kind},
        {kGroup, "the source goes on with its files", needs, source_goes_on},
        {kGroup, "source and restored ones are apart", needs, apart},
        {kGroup, "a snapshot of a restored one of a restored one has everything", needs, chain},
        {kGroup,
         "one of a stopped sandbox leaves it stopped",
         {Operation::Snapshot, Operation::Stop},
         of_a_stopped_one},
        {kGroup,
         "one of a paused sandbox has its files",
         {Operation::Snapshot, Operation::Pause},
         of_a_paused_one},
        {kGroup,
         "files are intact after the second resume of a restored one",
         {Operation::Snapshot, Operation::Stop},
         stopped_after_restoring},
        {kGroup, "it outlives its source", needs, after_the_source},
        {kGroup, "asking again finds what was made", needs, idempotent},
        {kGroup, "an unknown kind is not taken, and nothing happens", needs, unknown_kind_taken},
        {kGroup, "an unknown kind is not restored, and nothing happens", needs, unknown_kind_restored},
        {kGroup, "what is not there is not restored, and nothing is made", needs, missing},
        {kGroup, "a damaged one is not restored, and nothing is made", needs, damaged},
        {kGroup, "the hash of its file is told as it is", needs, truthful},
        {kGroup, "sandboxes live on when it is dropped, also twice", needs, dropped},
        {kGroup, "a command runs on while it is taken, without a gap", needs, while_running},
        {kGroup, "processes are no part of it", needs, no_processes},
    };
}

} // namespace berth::conformance
