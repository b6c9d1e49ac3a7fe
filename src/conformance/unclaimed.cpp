// What a backend does not claim must be refused, by name and before anything happens: a caller may then look
// for another way. Each kind of need is asked for here in the simplest form there is.

#include "conformance/unclaimed.hpp"

#include <fmt/ranges.h>

#include "base/ids.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

using policy::Feature;

Status refuses_exec(Context& c, ExecSpec exec, std::string_view what)
{
    BERTH_TRY(const auto sandbox, c.shared());
    return refused(what, c.await(c.backend().exec(sandbox, exec)), Code::Unsupported);
}

/// A policy that demands the feature.
void demand(policy::Policy& policy, Feature feature)
{
    const auto rule = [&](policy::Access access, policy::Target target) {
        policy.files.push_back({.access = access, .target = std::move(target)});
    };
    switch (feature) {
    case Feature::LimitMemory: policy.limits.memory = 64_MiB; break;
    case Feature::LimitCpu: policy.limits.cpus = 0.5; break;
    case Feature::LimitPids: policy.limits.pids = 32; break;
    case Feature::LimitDisk: policy.limits.disk = 16_MiB; break;
    case Feature::LimitOpenFiles: policy.limits.open_files = 64; break;
    case Feature::LimitWallTime: policy.limits.wall_time = std::chrono::seconds(1); break;
    case Feature::ReadOnlyPaths:
        rule(policy::Access::Read, policy::Symbolic{.symbol = policy::Symbol::Root});
        break;
    case Feature::WritablePaths:
        rule(policy::Access::Write, policy::Symbolic{.symbol = policy::Symbol::Tmpdir});
        break;
    case Feature::DeniedPaths: rule(policy::Access::Deny, policy::Path{"/etc/passwd"}); break;
    case Feature::Globs: rule(policy::Access::Deny, policy::Glob{"**/*.secret"}); break;
    case Feature::ProtectedNames: policy.protected_names = {".git"}; break;
    case Feature::NetworkAllow:
        policy.network = policy::Network::Allow;
        policy.allow = {{.host = "example.com"}};
        break;
    case Feature::NetworkOpen: policy.network = policy::Network::Open; break;
    case Feature::NetworkHost: policy.network = policy::Network::Host; break;
    case Feature::Sudo: policy.privileges = policy::Privileges::Sudo; break;
    case Feature::NestedNamespaces: policy.nested_namespaces = true; break;
    case Feature::Devices: policy.devices = {"/dev/fuse"}; break;
    case Feature::PrivateRoot:
    case Feature::NetworkOff: break; // what every policy asks for
    }
}

Status refuses_operation(Context& c, Operation operation)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto& backend = c.backend();
    const auto what = to_string(operation);
    const auto no = [&](const auto& result) { return refused(what, result, Code::Unsupported); };
    ExecSpec exec = Context::shell("true");
    switch (operation) {
    case Operation::Pty: exec.terminal = TerminalSize{}; return refuses_exec(c, exec, what);
    case Operation::Users: exec.user = "root"; return refuses_exec(c, exec, what);
    case Operation::ExecPolicy:
        exec.policy = *policy::preset("read-only");
        return refuses_exec(c, exec, what);
    case Operation::Stop:
        BERTH_CHECK(no(c.await(backend.stop(sandbox, 0ms))));
        return no(c.await(backend.start(sandbox)));
    case Operation::Pause:
        BERTH_CHECK(no(c.await(backend.pause(sandbox))));
        return no(c.await(backend.resume(sandbox)));
    case Operation::Snapshot: {
        BERTH_TRY(const auto directory, c.place().scratch());
        return no(c.await(backend.snapshot(
            sandbox, {.id = make_snapshot_id(system_clock()), .kind = {}, .directory = directory})));
    }
    case Operation::Ports: return no(c.await(backend.dial(sandbox, 80)));
    case Operation::Watch:
        return no(c.await(backend.watch(sandbox, "watch", {.path = "/tmp"}, Context::in(0s))));
    case Operation::Archive:
        BERTH_CHECK(
            no(c.await(backend.read_archive(sandbox, {.path = "/tmp"}, {}, [](auto) { return Status{}; }))));
        return no(
            c.await(backend.write_archive(sandbox, {.path = "/tmp"}, [] { return std::string{}; }, {})));
    case Operation::Attach: return no(c.await(backend.attach("nobody")));
    }
    return fail(Code::Internal, "no way to ask for {}", what);
}

Status refuses_feature(Context& c, Feature feature)
{
    SandboxSpec spec = c.spec();
    demand(spec.policy, feature);
    return refused(to_string(feature), c.create(std::move(spec)), Code::Unsupported);
}

} // namespace

std::string to_string(const Need& need)
{
    if (const auto* operation = std::get_if<Operation>(&need))
        return std::string(berth::to_string(*operation));
    return std::string(policy::to_string(std::get<Feature>(need)));
}

bool claimed(Context& context, const Need& need)
{
    const auto have = context.backend().capabilities();
    if (const auto* operation = std::get_if<Operation>(&need)) return have.can(*operation);
    return have.holds.of(std::get<Feature>(need)).tier != policy::Tier::None;
}

Status refuses(Context& context, const Need& need)
{
    if (const auto* operation = std::get_if<Operation>(&need)) return refuses_operation(context, *operation);
    return refuses_feature(context, std::get<Feature>(need));
}

} // namespace berth::conformance
