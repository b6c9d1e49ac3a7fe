#include "backend/local/prepare.hpp"

#include <sys/sysinfo.h>
#include <unistd.h>

#include "backend/local/environment.hpp"
#include "base/hooks.hpp"
#include "base/strings.hpp"
#include "core/admit.hpp"
#include "sys/caps.hpp"

namespace berth::local {

namespace {

/// Throw-away disk without a limit of its own: a quarter of the memory, since that is where it lies.
Bytes default_disk()
{
    struct sysinfo info{};
    if (::sysinfo(&info) != 0) return 1_GiB;
    return Bytes{static_cast<std::uint64_t>(info.totalram) * info.mem_unit / 4};
}

Result<RootLayers> find_layers(const StateDir& state, const Template& root, Pools* pools,
                               const Pools::Progress& progress, const RootLayers* known)
{
    if (known != nullptr) {
        if (!known->root.empty() && ::access(known->root.c_str(), F_OK) != 0)
            return fail_errno("its template {}", known->root);
        return *known;
    }
    if (pools != nullptr) return pools->layers(root, progress);
    return resolve_template(state, root, progress);
}

Status refuse_wide_live(const SandboxSpec& spec)
{
    if (spec.root.kind != Template::Kind::Live || !spec.policy.files.empty()) return {};
    return fail(Code::Denied,
                "template live without file rules would show everything of the host: use --policy "
                "read-only or workspace-write");
}

/// As early as can be: all that follows is done meanwhile. An ordinary user's namespace comes with the clone,
/// for it belongs to the user namespace that is made there; and so does that of a root who may not look at
/// processes, for the maker is not dumpable once the launch has other ids.
Status begin_network(Plan& plan)
{
    if (plan.net != NetMode::New || ::geteuid() != 0 || hooks::wall_off("net-namespace")) return {};
    if (!sys::has_cap(CAP_SYS_PTRACE) || !sys::has_cap(CAP_SYS_ADMIN)) return {};
    BERTH_TRY(plan.beside, sys::NetNamespaceBeside::begin());
    return {};
}

} // namespace

Status check_patterns(const policy::BoundFiles& files)
{
    if (files.empty() || files.rules.front().pattern.empty()) return {}; // paths come first
    return fail(Code::Invalid, "deny {}: no other file rule gives anything to deny it of",
                files.rules.front().source);
}

Status Prepared::for_one_command()
{
    if (!supervision || (user.uid == 0 && identity.mode != IdMode::Own)) return {};
    return supervision->only(user);
}

void Prepared::let_go()
{
    if (supervision) supervision->let_go();
    if (identity.range) identity.range->pass_on();
    identity.user_namespace = {};
    plan.net_namespace.reset();
    plan.beside.settle();
    plan.keep_open.clear();
}

Result<std::unique_ptr<Prepared>> prepare(const StateDir& state, const SandboxSpec& spec,
                                          const LimitAvailability& limits, Pools* pools,
                                          const Pools::Progress& progress, const RootLayers* known,
                                          const Pins* pins)
{
    BERTH_CHECK(validate(spec));
    BERTH_CHECK(refuse_wide_live(spec));
    auto made = std::make_unique<Prepared>();
    made->spec = spec;
    Plan& plan = made->plan;
    plan.spec = &made->spec;
    plan.state = &state;
    plan.identity = &made->identity;
    plan.landlock_abi = landlock_abi();
    if (spec.policy.network == policy::Network::Host)
        plan.net = NetMode::Host;
    else if (pools != nullptr)
        plan.net_namespace = pools->take_network();
    if (plan.net_namespace) plan.net = NetMode::Pooled;
    BERTH_CHECK(begin_network(plan));
    BERTH_TRY(plan.layers, find_layers(state, spec.root, pools, progress, known));
    const std::string probe = plan.layers.root.empty() ? state.path() : plan.layers.root;
    BERTH_TRY(made->identity, pools != nullptr ? pools->take_identity(probe) : make_identity(state, probe));
    if (spec.root.kind == Template::Kind::Live && made->identity.mode == IdMode::Plain)
        return fail(Code::Unsupported,
                    "template live needs ids that can be mapped: a user inside would be the host's "
                    "user of that number; run berth as an ordinary user instead");
    BERTH_TRY(made->user, pools != nullptr ? pools->account(spec.user, plan.layers, made->identity)
                                           : account_for(spec.user, plan.layers, made->identity));
    if (plan.layers.image && spec.user == "user" && made->user.name != "user")
        made->notes.push_back(fmt::format("the image has no account 'user': commands run as {}, uid {}",
                                          printable(made->user.name, 64), made->user.uid));

    if (made->identity.mode == IdMode::Own && !plan.layers.usr.empty()) {
        BERTH_TRY(plan.in_usr, submounts_of(plan.layers.usr));
    }
    if (!plan.in_usr.empty())
        made->notes.push_back(fmt::format("/usr is read-only, but for /usr/local: {}/{} is mounted in it",
                                          plan.layers.usr, printable(plan.in_usr.front().below)));

    plan.home = made->user.home;
    plan.home_owner = made->user.uid;

    const auto holdings = hold(made->identity, plan.layers, limits, &spec.policy);
    BERTH_CHECK(admit(spec, holdings, made->notes));

    plan.disk = spec.policy.limits.disk.value_or(default_disk());
    BERTH_TRY(made->binds, open_binds(spec, state, made->identity, made->user, pins));
    plan.binds = made->binds;
    BERTH_TRY(plan.files, policy::bind_files(spec.policy, roots_of(spec, made->user)));
    BERTH_CHECK(check_patterns(plan.files));
    if (!hooks::wall_off("supervisor")) {
        BERTH_TRY(made->supervision, Supervision::make(plan.files));
    }
    if (made->supervision) plan.supervision = &*made->supervision;
    if (made->supervision && made->identity.mode == IdMode::Own)
        BERTH_CHECK(made->supervision->only(made->user));
    BERTH_TRY(made->protects, ProtectedNames::hold(site_of(plan)));
    plan.protected_paths = made->protects.paths();
    plan.keep_open = made->protects.locks();
    // The lease of the ids, too, lives as long as somebody holds its descriptor.
    if (made->identity.range) plan.keep_open.push_back(made->identity.range->fd());
    return made;
}

} // namespace berth::local
