// A sandbox is found again by anybody who looks, and never made twice.

#include <algorithm>

#include "base/ids.hpp"
#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "conformance/side_by_side.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "identity";

InstanceLabels labels()
{
    return {.key = "conversation:conformance:" + random_hex(4),
            .spec_hash = "v1-0123456789abcdef",
            .exo_hash = "8b720987830e622f",
            .owner = "conformance-" + random_hex(4),
            .created = system_clock().now(),
            .generation = 1};
}

Result<Found> scanned(Context& c, Backend& by, const std::string& native)
{
    BERTH_TRY(const auto all, c.await(by.scan()));
    const auto at = std::ranges::find_if(all, [&](const Found& one) { return one.sandbox.native == native; });
    if (at == all.end()) return fail(Code::NotFound, "scan does not tell {}", native);
    return *at;
}

Status same_labels(const InstanceLabels& got, const InstanceLabels& want)
{
    BERTH_CHECK(same("the key", got.key, want.key));
    BERTH_CHECK(same("the hash", got.spec_hash, want.spec_hash));
    BERTH_CHECK(same("exo's hash", got.exo_hash, want.exo_hash));
    BERTH_CHECK(same("the owner", got.owner, want.owner));
    BERTH_CHECK(same("the generation", got.generation, want.generation));
    const auto apart = got.created - want.created;
    return expect(apart < 1s && apart > -1s, "the time of creation is another");
}

Status labels_are_scanned(Context& c)
{
    CreateRequest request(c.spec());
    request.labels = labels();
    BERTH_TRY(const auto made, c.create(request));
    BERTH_TRY(const auto found, scanned(c, c.backend(), made.native));
    BERTH_CHECK(same("its id", found.sandbox.sandbox, request.spec.id));
    return same_labels(found.labels, request.labels);
}

Status labels_are_inspected(Context& c)
{
    CreateRequest request(c.spec());
    request.labels = labels();
    BERTH_TRY(const auto made, c.create(request));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(made)));
    BERTH_CHECK(same("its state", found.state, State::Running));
    BERTH_CHECK(same("its health", found.health, Health::Healthy));
    return same_labels(found.labels, request.labels);
}

Status found_after_a_restart(Context& c)
{
    CreateRequest request(c.spec());
    request.labels = labels();
    BERTH_TRY(const auto made, c.create(request));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto found, scanned(c, *other, made.native));
    BERTH_CHECK(same("its health", found.health, Health::Healthy));
    BERTH_CHECK(same_labels(found.labels, request.labels));
    const auto exec = Context::shell("echo works");
    BERTH_CHECK(step("a command", c.await(other->exec(found.sandbox, exec))));
    BERTH_TRY(const auto ran, c.follow(*other, found.sandbox, exec));
    return same("what it says", ran.out, "works\n");
}

Status files_stay_after_a_restart(Context& c)
{
    BERTH_TRY(const auto made, c.own());
    BERTH_TRY(const auto path, c.at_home("kept"));
    BERTH_CHECK(c.write(made, path, "by the first"));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto bytes, c.await(other->read_file(made, {.path = path}, 1_MiB)));
    return same("the file", bytes, "by the first");
}

Status execs_stay_after_a_restart(Context& c)
{
    BERTH_TRY(const auto made, c.own());
    const auto exec =
        Context::shell("i=0; while [ $i -lt 40 ]; do echo $i; sleep 0.01; i=$((i+1)); done; exit 9");
    BERTH_CHECK(c.start(made, exec));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto ran, c.follow(*other, made, exec));
    std::string want;
    for (int i = 0; i < 40; ++i) want += fmt::format("{}\n", i);
    BERTH_CHECK(same("its output", ran.out, want));
    return exited(ran, 9);
}

Status created_again(Context& c)
{
    CreateRequest request(c.spec());
    request.labels = labels();
    BERTH_TRY(const auto made, c.create(request));
    BERTH_TRY(const auto path, c.at_home("mark"));
    BERTH_CHECK(c.write(made, path, "x"));
    BERTH_TRY(const auto again, c.await(c.backend().create(request)));
    BERTH_CHECK(expect(again == made, "{} instead of {}", again.native, made.native));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto third, c.await(other->create(request)));
    BERTH_CHECK(expect(third == made, "another process gets {} instead of {}", third.native, made.native));
    BERTH_TRY(const auto kept, c.read(made, path));
    return same("its file", kept, "x");
}

Status another_spec(Context& c)
{
    SandboxSpec spec = c.spec();
    BERTH_TRY(const auto made, c.create(spec));
    spec.hostname = "another";
    BERTH_CHECK(
        refused("the same id with another host name", c.await(c.backend().create(spec)), Code::Conflict));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_CHECK(refused("the same by another process", c.await(other->create(spec)), Code::Conflict));
    BERTH_TRY(const auto said, c.output(made, "echo lives"));
    return same("the first", said, "lives\n");
}

Status racing(Context& c)
{
    const CreateRequest request(c.spec());
    BERTH_TRY(const auto other, c.reopen());
    std::vector<Task<Result<SandboxHandle>>> tasks;
    tasks.push_back(c.backend().create(request));
    tasks.push_back(other->create(request));
    tasks.push_back(c.backend().create(request));
    tasks.push_back(other->create(request));
    const auto made = await_all(c, std::move(tasks));
    c.remember({.sandbox = request.spec.id, .native = request.spec.id});
    int well = 0;
    for (const auto& one : made) {
        // Whoever comes while it is made may be told to try again; nobody may get another one.
        if (!one) {
            BERTH_CHECK(
                expect(one.error().code == Code::Unavailable, "one of them failed: {}", one.error().line()));
            continue;
        }
        ++well;
        BERTH_CHECK(same("its id", one->sandbox, request.spec.id));
    }
    BERTH_CHECK(expect(well > 0, "nobody got it"));
    BERTH_TRY(const auto all, c.await(c.backend().scan()));
    const auto count =
        std::ranges::count_if(all, [&](const Found& one) { return one.sandbox.sandbox == request.spec.id; });
    return same("instances of it", count, std::ptrdiff_t{1});
}

Status generations(Context& c)
{
    CreateRequest request(c.spec());
    request.labels = labels();
    BERTH_TRY(const auto first, c.create(request));
    request.labels.generation = 2;
    BERTH_TRY(const auto second, c.create(request));
    BERTH_CHECK(expect(first.native != second.native, "two generations have one instance"));
    BERTH_CHECK(same("the sandbox of both", second.sandbox, first.sandbox));
    BERTH_TRY(const auto path, c.at_home("mark"));
    BERTH_CHECK(c.write(first, path, "first"));
    BERTH_CHECK(refused("the file in the second", c.read(second, path), Code::NotFound));
    BERTH_TRY(const auto found, scanned(c, c.backend(), second.native));
    BERTH_CHECK(same("the generation told", found.labels.generation, std::uint64_t{2}));
    BERTH_CHECK(step("removing the first", c.await(c.backend().destroy(first))));
    BERTH_TRY(const auto said, c.output(second, "echo lives"));
    return same("the second", said, "lives\n");
}

Status lists_all(Context& c)
{
    std::vector<SandboxHandle> made;
    for (int i = 0; i < 5; ++i) {
        BERTH_TRY(made.emplace_back(), c.own());
    }
    BERTH_TRY(const auto all, c.await(c.backend().scan()));
    for (const auto& one : made)
        BERTH_CHECK(same("how often it is listed",
                         std::ranges::count_if(all, [&](const Found& f) { return f.sandbox == one; }),
                         std::ptrdiff_t{1}));
    return {};
}

Status strangers(Context& c)
{
    SandboxHandle nobody;
    nobody.sandbox = nobody.native = make_sandbox_id(system_clock());
    BERTH_TRY(const auto found, c.await(c.backend().inspect(nobody)));
    BERTH_CHECK(same("the health of one that never was", found.health, Health::Gone));
    BERTH_CHECK(same("its state", found.state, State::Lost));
    return refused("a command in it", c.await(c.backend().exec(nobody, Context::shell("true"))),
                   Code::NotFound);
}

Status names_that_lead_elsewhere(Context& c)
{
    for (const std::string id : {"../template", "", "sbx_", "/etc", "sbx_0000000000000000000000000/"}) {
        const SandboxHandle elsewhere{.sandbox = id, .native = id};
        BERTH_CHECK(
            refused("destroying '" + id + "'", c.await(c.backend().destroy(elsewhere)), Code::Invalid));
        BERTH_CHECK(refused("a command in '" + id + "'",
                            c.await(c.backend().exec(elsewhere, Context::shell("true"))), Code::Invalid));
    }
    return {};
}

Status failed_creation(Context& c)
{
    SandboxSpec bad = c.spec();
    bad.user = "nobody-of-this-name";
    c.place().remember(bad.id);
    BERTH_CHECK(refused("an unknown user", c.await(c.backend().create(bad))));
    BERTH_TRY(const auto all, c.await(c.backend().scan()));
    for (const auto& one : all) BERTH_CHECK(expect(one.sandbox.sandbox != bad.id, "something of it is left"));
    bad.user = c.spec().user;
    BERTH_TRY(const auto made, c.create(bad));
    BERTH_TRY(const auto said, c.output(made, "echo made"));
    return same("the second try", said, "made\n");
}

} // namespace

std::vector<Check> identity_checks()
{
    return {
        {kGroup, "the labels of an instance are in the list", {}, labels_are_scanned},
        {kGroup, "the labels of an instance are told when it is asked for", {}, labels_are_inspected},
        {kGroup, "another process finds it and works in it", {}, found_after_a_restart},
        {kGroup, "its files are there for another process", {}, files_stay_after_a_restart},
        {kGroup, "its execs go on for another process", {}, execs_stay_after_a_restart},
        {kGroup, "creating it again finds the same", {}, created_again},
        {kGroup, "the same id with another specification is a conflict", {}, another_spec},
        {kGroup, "creators that race get one instance", {}, racing},
        {kGroup, "generations of one sandbox are apart", {}, generations},
        {kGroup, "every instance is listed once", {}, lists_all},
        {kGroup, "one that never was is gone, which is an answer", {}, strangers},
        {kGroup, "an id that could lead elsewhere is invalid", {}, names_that_lead_elsewhere},
        {kGroup, "a failed creation leaves nothing and can be tried again", {}, failed_creation},
    };
}

} // namespace berth::conformance
