#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/local/plan.hpp"
#include "base/io.hpp"
#include "base/json.hpp"
#include "base/scope_exit.hpp"
#include "bench/command.hpp"
#include "bench/peers.hpp"
#include "sys/cgroup_layout.hpp"
#include "sys/child.hpp"
#include "sys/launch.hpp"

namespace berth::bench {

namespace {

constexpr const char* kContainer = "stays";
/// Seconds. Should we be killed, the container still ends by itself.
constexpr const char* kStay = "1200";

json::Object mount_json(const char* target, const char* type, const std::string& source, json::Array options)
{
    json::Object mount;
    mount["destination"] = target;
    mount["type"] = type;
    mount["source"] = source;
    mount["options"] = std::move(options);
    return mount;
}

/// A container over the same root as ours, with the same kinds of limits and no network namespace.
json::Object config(const local::RootLayers& layers, const std::vector<std::string>& argv)
{
    json::Object process;
    process["terminal"] = false;
    process["user"] = json::Object{{"uid", 0}, {"gid", 0}};
    json::Array words;
    for (const auto& word : argv) words.emplace_back(word);
    process["args"] = std::move(words);
    process["env"] = json::Array{"PATH=/usr/bin:/bin"};
    process["cwd"] = "/";
    process["noNewPrivileges"] = true;

    json::Array mounts;
    mounts.emplace_back(mount_json("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}));
    mounts.emplace_back(mount_json("/dev", "tmpfs", "tmpfs", {"nosuid", "mode=755", "size=65536k"}));
    if (!layers.usr.empty()) mounts.emplace_back(mount_json("/usr", "bind", layers.usr, {"bind", "ro"}));

    json::Array namespaces;
    for (const char* kind : {"pid", "ipc", "uts", "mount"})
        namespaces.emplace_back(json::Object{{"type", kind}});
    json::Object resources;
    resources["memory"] = json::Object{{"limit", std::int64_t{1} << 30}};
    resources["pids"] = json::Object{{"limit", 4096}};
    resources["cpu"] = json::Object{{"quota", 100000}, {"period", 100000}};

    json::Object out;
    out["ociVersion"] = "1.0.2";
    out["process"] = std::move(process);
    out["root"] = json::Object{{"path", layers.root}, {"readonly", true}};
    out["hostname"] = "peer";
    out["mounts"] = std::move(mounts);
    out["linux"] = json::Object{{"namespaces", std::move(namespaces)}, {"resources", std::move(resources)}};
    return out;
}

/// A mount namespace without the v2 hierarchy: runtimes take a hybrid layout for one of v2 alone, or
/// stumble over it. Empty where the layout is not hybrid.
Result<UniqueFd> namespace_without_v2()
{
    BERTH_TRY(const auto own, read_file("/proc/self/cgroup"));
    BERTH_TRY(const auto mounts, read_file("/proc/self/mountinfo", 16_MiB));
    const auto layout = sys::parse_layout(own, mounts);
    bool v1 = false;
    for (const auto& group : layout.v1) v1 = v1 || group.has_value();
    if (!layout.v2 || !v1) return UniqueFd{};
    sys::StepList list;
    list.make_private();
    list.unmount(layout.v2->mount);
    list.exec_path({"/usr/bin/sleep"}, {"sleep", "60"}, {});
    BERTH_TRY(auto launched, sys::launch(list, {.namespaces = CLONE_NEWNS}));
    // Held by the descriptor from here on; the process is killed when `holder` goes.
    const auto holder = sys::Child::own(launched.pid, std::move(launched.pidfd));
    UniqueFd held(::open(fmt::format("/proc/{}/ns/mnt", holder.pid()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!held) return fail_errno("opening the mount namespace of process {}", holder.pid());
    return held;
}

Status write_bundle(int parent, const std::string& name, const json::Object& document)
{
    if (::mkdirat(parent, name.c_str(), 0700) != 0) return fail_errno("making the directory {}", name);
    const UniqueFd dir(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir) return fail_errno("opening the directory {}", name);
    return replace_file_at(dir.get(), "config.json", json::dump(document));
}

} // namespace

void add_runtime(Context& context, Table& table, const std::string& name,
                 std::vector<std::unique_ptr<OciPeer>>& runtimes)
{
    if (find_program(name).empty()) {
        table.skipped.push_back(absent(name));
        return;
    }
    auto made = OciPeer::make(context, name);
    if (made)
        runtimes.push_back(*std::move(made));
    else
        table.skipped.push_back({.name = name, .reason = made.error().line()});
}

Result<std::unique_ptr<OciPeer>> OciPeer::make(Context& context, const std::string& name)
{
    if (::geteuid() != 0) return fail(Code::Unsupported, "{} is measured as root only", name);
    BERTH_TRY(auto bundles, OwnData::make(context, name));
    std::unique_ptr<OciPeer> peer(new OciPeer(std::move(bundles)));
    peer->name_ = name;
    peer->program_ = find_program(name);
    BERTH_TRY(peer->mount_namespace_, namespace_without_v2());
    BERTH_TRY(const auto layers, local::resolve_template(context.state(), Template{}, {}));
    BERTH_TRY(const auto own, open_dir(peer->bundles_.path()));
    BERTH_CHECK(write_bundle(own.get(), "once", config(layers, {kTrue})));
    BERTH_CHECK(write_bundle(own.get(), "stay", config(layers, {"/usr/bin/sleep", kStay})));
    BERTH_CHECK(peer->runtime({"run", "--bundle", "once", "trial"}));
    return peer;
}

OciPeer::~OciPeer()
{
    if (container_) [[maybe_unused]]
        const auto gone = runtime({"delete", "--force", kContainer});
}

std::vector<std::string> OciPeer::words(const std::vector<std::string>& command) const
{
    const std::string& base = bundles_.path();
    std::vector<std::string> out{program_, "--root", base + "/root"};
    for (std::size_t i = 0; i < command.size(); ++i) {
        const bool bundle = i > 0 && command[i - 1] == "--bundle";
        out.push_back(bundle ? base + "/" + command[i] : command[i]);
    }
    return out;
}

Status OciPeer::runtime(const std::vector<std::string>& command)
{
    BERTH_TRY(auto made,
              Command::make(words(command),
                            {.mount_namespace = mount_namespace_.get(), .quiet = true, .foreign = true}));
    BERTH_TRY([[maybe_unused]] const double taken, made.time());
    return {};
}

Result<Case> OciPeer::run_case()
{
    BERTH_TRY(auto made,
              Command::make(words({"run", "--bundle", "once", "once"}),
                            {.mount_namespace = mount_namespace_.get(), .quiet = true, .foreign = true}));
    const auto command = std::make_shared<Command>(std::move(made));
    return Case{.name = name_ + " run", .run = [command] { return command->time(); }, .every = 4};
}

Result<Case> OciPeer::exec_case()
{
    if (!container_) BERTH_CHECK(runtime({"run", "--detach", "--bundle", "stay", kContainer}));
    container_ = true;
    BERTH_TRY(auto made,
              Command::make(words({"exec", kContainer, kTrue}),
                            {.mount_namespace = mount_namespace_.get(), .quiet = true, .foreign = true}));
    const auto command = std::make_shared<Command>(std::move(made));
    return Case{.name = name_ + " exec", .run = [command] { return command->time(); }, .every = 4};
}

} // namespace berth::bench
