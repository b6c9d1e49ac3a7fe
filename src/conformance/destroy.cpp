// Destroying is the one operation that deletes, and it deletes everything.

#include <algorithm>

#include "base/ids.hpp"
#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "conformance/side_by_side.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "destroy";

Status gone(Context& c, const SandboxHandle& sandbox)
{
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    BERTH_CHECK(same("its health", found.health, Health::Gone));
    BERTH_TRY(const auto all, c.await(c.backend().scan()));
    return expect(std::ranges::none_of(all, [&](const Found& f) { return f.sandbox == sandbox; }),
                  "it is still listed");
}

Status leaves_nothing(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    BERTH_CHECK(gone(c, sandbox));
    BERTH_CHECK(refused("a command in it", c.await(c.backend().exec(sandbox, Context::shell("true"))),
                        Code::NotFound));
    return refused("a file of it", c.await(c.backend().read_file(sandbox, {.path = "/etc/passwd"}, 1_MiB)),
                   Code::NotFound);
}

Status twice(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    for (int i = 0; i < 3; ++i)
        BERTH_CHECK(step("destroying it again", c.await(c.backend().destroy(sandbox))));
    BERTH_TRY(const auto other, c.reopen());
    return step("destroying it by another process", c.await(other->destroy(sandbox)));
}

Status unknown(Context& c)
{
    const std::string id = make_sandbox_id(system_clock());
    return step("destroying what never was", c.await(c.backend().destroy({.sandbox = id, .native = id})));
}

Status with_execs(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    for (int i = 0; i < 3; ++i) BERTH_CHECK(c.start(sandbox, Context::shell("sleep 300 & sleep 300")));
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    return gone(c, sandbox);
}

Status by_another_process(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto other, c.reopen());
    BERTH_CHECK(step("destroying it", c.await(other->destroy(sandbox))));
    return gone(c, sandbox);
}

Status at_once(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto other, c.reopen());
    std::vector<Task<Result<int>>> tasks;
    const auto destroy = [&](Backend& by) -> Task<Result<int>> {
        BERTH_CO_CHECK(co_await by.destroy(sandbox));
        co_return 0;
    };
    for (int i = 0; i < 3; ++i) {
        tasks.push_back(destroy(c.backend()));
        tasks.push_back(destroy(*other));
    }
    for (const auto& one : await_all(c, std::move(tasks)))
        // Somebody who comes while it is removed may be told to try again.
        BERTH_CHECK(expect(one || one.error().code == Code::Unavailable, "one of them failed: {}",
                           one ? "" : one.error().line()));
    BERTH_CHECK(step("destroying it again", c.await(c.backend().destroy(sandbox))));
    return gone(c, sandbox);
}

Status the_id_is_free_again(Context& c)
{
    const SandboxSpec spec = c.spec();
    BERTH_TRY(const auto first, c.create(spec));
    BERTH_TRY(const auto path, c.at_home("old"));
    BERTH_CHECK(c.write(first, path, "x"));
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(first))));
    BERTH_TRY(const auto second, c.create(spec));
    return refused("a file of the first in the second", c.read(second, path), Code::NotFound);
}

Status hard_to_remove(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const std::string path = "$HOME/deep";
    const std::string script =
        "mkdir -p {0}/a/b && touch {0}/a/b/file && chmod 000 {0}/a/b {0}/a && "
        "cd {0} && i=0 && while [ $i -lt 200 ]; do mkdir d && cd d && i=$((i+1)); done; "
        "ln -s /etc/passwd link; ln -s loop loop; echo made";
    BERTH_TRY(const auto said, c.output(sandbox, fmt::format(fmt::runtime(script), path)));
    BERTH_CHECK(same("the tree", said, "made\n"));
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    return gone(c, sandbox);
}

Status others_live_on(Context& c)
{
    BERTH_TRY(const auto one, c.own());
    BERTH_TRY(const auto other, c.own());
    BERTH_TRY(const auto path, c.at_home("file"));
    BERTH_CHECK(c.write(other, path, "mine"));
    BERTH_CHECK(step("destroying one", c.await(c.backend().destroy(one))));
    BERTH_TRY(const auto said, c.output(other, "cat file"));
    return same("the other's file", said, "mine");
}

} // namespace

std::vector<Check> destroy_checks()
{
    return {
        {kGroup, "nothing is left of it", {}, leaves_nothing},
        {kGroup, "doing it again is success", {}, twice},
        {kGroup, "of one that never was is success", {}, unknown},
        {kGroup, "ends the execs that run in it", {}, with_execs},
        {kGroup, "works from another process", {}, by_another_process},
        {kGroup, "several who do it at once agree", {}, at_once},
        {kGroup, "frees the id for a new one", {}, the_id_is_free_again},
        {kGroup, "removes trees that resist", {}, hard_to_remove},
        {kGroup, "touches no other sandbox", {}, others_live_on},
    };
}

} // namespace berth::conformance
