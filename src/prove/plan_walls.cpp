// Probes for the network, for what of the host must never show, and for what no policy gives away:
// privileges, the kernel's settings, devices, namespaces.

#include <algorithm>

#include "policy/target.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

namespace {

using policy::Network;

// Addresses that are nobody's: for documentation (RFC 5737, RFC 3849). No packet is sent to them.
constexpr const char* kLiteral = "198.51.100.7";
constexpr const char* kNameServer = "192.0.2.53";
constexpr const char* kSix = "2001:db8::7";
constexpr const char* kMetadata = "169.254.169.254";

class Adder {
public:
    Adder(Plan& out, std::string rule) : out_(out), rule_(std::move(rule)) {}
    void fail(std::string name, std::vector<std::string> act, bool of_this_machine = false)
    {
        out_.probes.push_back({.rule = rule_,
                               .name = std::move(name),
                               .must = Must::Fail,
                               .act = std::move(act),
                               .of_this_machine = of_this_machine});
    }
    void pass(std::string name, std::vector<std::string> act, bool of_this_machine = false)
    {
        out_.probes.push_back({.rule = rule_,
                               .name = std::move(name),
                               .must = Must::Pass,
                               .act = std::move(act),
                               .of_this_machine = of_this_machine});
    }
    void untried(std::string why) { out_.untried.push_back({rule_, std::move(why)}); }

private:
    Plan& out_;
    std::string rule_;
};

/// Our own listeners, which are certainly there.
void reach_host(const Bait& bait, Adder& add)
{
    const auto port = [](std::uint16_t number) { return std::to_string(number); };
    if (bait.tcp4 != 0)
        add.fail("reach_loopback_of_the_host", {"tcp", "127.0.0.1", port(bait.tcp4), bait.word}, true);
    if (bait.tcp6 != 0)
        add.fail("reach_ipv6_loopback_of_the_host", {"tcp", "::1", port(bait.tcp6), bait.word}, true);
    if (bait.udp4 != 0)
        add.fail("reach_the_host_by_udp", {"udp", "127.0.0.1", port(bait.udp4), bait.word}, true);
    if (!bait.abstract.empty())
        add.fail("reach_abstract_socket_of_the_host", {"unix", bait.abstract, bait.word}, true);
}

bool mounted(const SandboxSpec& spec, const std::string& path)
{
    for (const auto& mount : spec.mounts)
        if (policy::at_or_below(path, mount.source)) return true;
    return false;
}

/// A file of ours that the policy shows by its own words, on a machine that may be this one.
bool granted(const Ground& ground, const std::string& path)
{
    if (!ground.terrain.whole_machine || ground.spec.policy.files.empty()) return false;
    const auto files = policy::bind_files(ground.spec.policy, roots_of(ground));
    return files && files->decide(path) != policy::Access::Deny;
}

} // namespace

void plan_network(const Ground& ground, Plan& out)
{
    const auto kind = ground.spec.policy.network;
    const bool live = ground.spec.root.kind == Template::Kind::Live;
    Adder add(out, fmt::format("network {}", to_string(kind)));
    const auto& terrain = ground.terrain;
    const bool cut = kind == Network::Off && terrain.cut_by_namespace;
    add.pass("talk_over_own_loopback", {"loopback", "127.0.0.1"});
    out.probes.back().only_told = cut; // some forbid every socket then
    // The filter of a live view knows no unix sockets: those of the host would answer. Beside deny patterns
    // there are none either: their names would lead past the supervisor.
    const bool patterns = std::ranges::any_of(
        ground.spec.policy.files, [](const auto& rule) { return policy::is_pattern(rule.target); });
    if (!live && !patterns && !cut) add.pass("talk_over_own_unix_socket", {"own-unix"});
    if (kind == Network::Host) {
        if (ground.bait.tcp4 != 0)
            add.pass("reach_loopback_of_the_host",
                     {"tcp", "127.0.0.1", std::to_string(ground.bait.tcp4), ground.bait.word}, true);
        if (!ground.bait.abstract.empty()) {
            // Some kernels can keep these apart even here.
            add.fail("reach_abstract_socket_of_the_host", {"unix", ground.bait.abstract, ground.bait.word},
                     true);
            out.probes.back().only_told = true;
        }
        return add.untried("it grants the host's network: nothing of it must fail");
    }
    reach_host(ground.bait, add);
    if (cut && !terrain.host.empty())
        add.fail("reach_who_listens_outside", {"tcp", terrain.host, std::to_string(terrain.port), ""});
    if (cut || (kind == Network::Off && !elsewhere(ground.have))) {
        add.fail("find_an_interface", {"interfaces"});
        add.fail("reach_an_ip_literal", {"route", kLiteral, "443"});
        add.fail("reach_an_ipv6_literal", {"route", kSix, "443"});
        add.fail("ask_another_dns_server", {"route", kNameServer, "53"});
        add.fail("reach_metadata_address", {"route", kMetadata, "80"});
        add.fail("make_raw_packets", {"raw"});
        return;
    }
    // A firewall far away drops what has a route: only a connection tells, and silence proves little.
    add.fail("connect_to_metadata_address", {"tcp", kMetadata, "80", ""});
    if (kind == Network::Off) {
        add.fail("connect_to_an_ip_literal", {"tcp", kLiteral, "443", ""});
        add.fail("ask_another_dns_server", {"tcp", kNameServer, "53", ""});
    }
}

void plan_host(const Ground& ground, Plan& out)
{
    const auto& bait = ground.bait;
    const auto& policy = ground.spec.policy;
    Adder add(out, policy.files.empty() ? "a private root" : "nothing else of the host");
    const char* const names[] = {"read_file_of_the_host", "read_file_of_the_state_directory"};
    for (std::size_t i = 0; i < bait.files.size(); ++i)
        if (!mounted(ground.spec, bait.files[i]) && !granted(ground, bait.files[i]))
            add.fail(names[std::min<std::size_t>(i, 1)], {"seen", bait.files[i], bait.word}, true);
    const auto& terrain = ground.terrain;
    if (!terrain.secret.empty()) {
        add.fail("read_file_of_that_machine", {"seen", terrain.secret, terrain.word});
        add.fail("write_file_of_that_machine", {"write", terrain.secret});
    }
    if (!bait.socket.empty() && !mounted(ground.spec, bait.socket))
        add.fail("reach_unix_socket_of_the_host", {"unix", bait.socket, bait.word}, true);
    for (const char* path : {"/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private"})
        if (!mounted(ground.spec, path))
            add.fail(fmt::format("reach_unix_socket {}", path), {"unix", path, ""});
    add.fail("use_inherited_descriptor", {"descriptors"});
    add.fail("see_process_of_the_host", {"process", std::to_string(bait.pid), std::to_string(bait.pid_start)},
             true);
    if (!policy.files.empty()) add.pass("run_a_process", {"processes", "2", "few"});
}

void plan_kernel(const Ground& ground, Plan& out)
{
    const auto& policy = ground.spec.policy;
    Adder privileges(out,
                     policy.privileges == policy::Privileges::Sudo ? "privileges sudo" : "privileges none");
    if (elsewhere(ground.have))
        return privileges.untried("the machine around the sandbox is the vendor's: it decides");
    if (policy.privileges == policy::Privileges::None) {
        privileges.fail("gain_privileges_by_set_id", {"new-privileges"});
        if (ground.facts.uid != 0)
            privileges.fail("become_root", {"become-root"});
        else
            privileges.untried("become_root: it says that it is user 0 already");
    }
    privileges.fail("have_capabilities_that_reach_beyond", {"capabilities"});
    privileges.fail("be_root_of_the_host", {"machine-root"});
    out.probes.back().only_told = true;
    privileges.pass("run_a_process", {"processes", "2", "few"});

    Adder kernel(out, "the kernel is out of reach");
    kernel.fail("call_the_kernel_unfiltered", {"unfiltered"});
    kernel.fail("use_keyrings_of_the_host", {"keys"});
    kernel.fail("mount", {"mounts"});
    kernel.fail("change_kernel_settings", {"kernel-settings"});
    if (policy.nested_namespaces)
        kernel.untried("nested namespaces leave /proc uncovered");
    else
        for (const char* name :
             {"kcore", "keys", "timer_list", "latency_stats", "sched_debug", "scsi", "acpi"})
            kernel.fail(fmt::format("look_behind_mask /proc/{}", name),
                        {"masked", fmt::format("/proc/{}", name)});
    kernel.pass("read_own_status", {"read", "/proc/self/status"});

    if (policy.nested_namespaces) {
        Adder(out, "nested namespaces").pass("make_a_user_namespace", {"namespaces"});
    } else {
        Adder(out, "no nested namespaces").fail("make_a_user_namespace", {"namespaces"});
    }
    if (policy.devices.empty()) {
        Adder devices(out, "no devices");
        devices.fail("open_memory_and_disks", {"devices", writable_place(ground)});
        devices.pass("read_the_null_device", {"read", "/dev/null"});
    } else {
        for (const auto& device : policy.devices)
            Adder(out, "device " + device).pass("open it", {"read", device});
    }
}

} // namespace berth::prove
