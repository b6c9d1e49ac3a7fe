// Network off means off: no way out by address, by name, by either version, nor to the host itself. What is
// tried stays in the sandbox's own namespace; nothing is sent to anybody.

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conformance/check.hpp"
#include "conformance/reach.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "network";

/// A listener of the host on its loopback.
struct Listener {
    UniqueFd fd;
    unsigned port = 0;
};

Result<Listener> listen_on_host()
{
    Listener out{.fd = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof address;
    if (!out.fd || ::bind(out.fd.get(), raw, size) != 0 || ::listen(out.fd.get(), 8) != 0 ||
        ::getsockname(out.fd.get(), raw, &size) != 0)
        return fail_errno("listening on the host's loopback");
    out.port = ::ntohs(address.sin_port);
    return out;
}

Status unreachable(Context& c, const std::string& host, unsigned port)
{
    BERTH_TRY(auto argv, connecting(c, host, port));
    if (argv.empty()) return c.skip("the template has no python3, bash or perl to connect with");
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::command(std::move(argv));
    exec.timeout = 10s;
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return expect(!ran.outcome.status.success(), "{} port {} was reached", host, port);
}

Check closed(std::string name, std::string host, unsigned port)
{
    const auto run = [host, port](Context& c) -> Status { return unreachable(c, host, port); };
    return {kGroup, std::move(name), {policy::Feature::NetworkOff}, run};
}

Status host_loopback(Context& c)
{
    BERTH_TRY(const auto listener, listen_on_host());
    return unreachable(c, "127.0.0.1", listener.port);
}

Status no_interface(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("cat /proc/net/dev"));
    // Tunnels that a kernel makes in every namespace are down and lead nowhere.
    BERTH_TRY(const auto up, c.sh("for n in $(sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev); do "
                                  "[ $n = lo ] || cat /sys/class/net/$n/operstate 2>/dev/null; done; true"));
    BERTH_CHECK(contains("the interfaces", ran.out, "lo:"));
    return lacks("the states of further interfaces", up.out, "up");
}

Status no_route(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("cat /proc/net/route"));
    std::size_t lines = 0;
    for (const char byte : ran.out) lines += byte == '\n' ? 1 : 0;
    return expect(lines <= 1, "there are routes: {}", ran.out);
}

Status no_name(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("command -v getent"));
    if (!ran.outcome.status.success()) return c.skip("the template has no getent");
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::command({"getent", "hosts", "example.com"});
    exec.timeout = 30s;
    BERTH_TRY(const auto asked, c.run(sandbox, exec));
    BERTH_CHECK(expect(!asked.outcome.timed_out, "the name service does not answer at all"));
    return expect(!asked.outcome.status.success(), "a name was found: {}", asked.out);
}

/// A server and its client in one command.
ExecSpec one_command(const std::vector<std::string>& server, const std::vector<std::string>& client)
{
    std::vector<std::string> argv{
        "/bin/sh", "-c",
        "n=$1; shift; i=0; while [ $i -lt $n ]; do eval \"s$i=\\$1\"; w=\"$w "
        "\\\"\\$s$i\\\"\"; shift; i=$((i+1)); done; "
        "eval \"exec $w\" & p=$!; i=0; until \"$@\" 2>/dev/null; do i=$((i+1)); [ $i "
        "-lt 50 ] || exit 1; sleep 0.1; done; "
        "kill $p",
        "sh", std::to_string(server.size())};
    argv.insert(argv.end(), server.begin(), server.end());
    argv.insert(argv.end(), client.begin(), client.end());
    return Context::command(std::move(argv));
}

Status own_loopback(Context& c)
{
    BERTH_TRY(auto server, listening(c, 7391));
    BERTH_TRY(auto client, connecting(c, "127.0.0.1", 7391));
    if (server.empty() || client.empty()) return c.skip("the template has no python3 or perl to listen with");
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::command(server);
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "listening", from));
    BERTH_TRY(auto ran, c.run(sandbox, Context::command(client)));
    // Where each command has a loopback to itself, no port of a sandbox can be dialled either.
    if (!ran.outcome.status.success() && !c.backend().capabilities().can(Operation::Ports)) {
        BERTH_TRY(ran, c.run(sandbox, one_command(server, client)));
    }
    BERTH_CHECK(exited(ran, 0));
    // Another sandbox has a loopback of its own.
    BERTH_TRY(const auto other, c.own());
    BERTH_TRY(const auto apart, c.run(other, Context::command(std::move(client))));
    return expect(!apart.outcome.status.success(), "one sandbox reached the loopback of another");
}

Status no_raw_packets(Context& c)
{
    BERTH_TRY(const auto python, c.sh("command -v python3"));
    if (!python.outcome.status.success()) return c.skip("the template has no python3");
    BERTH_TRY(const auto ran,
              c.sh("python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'"));
    return expect(!ran.outcome.status.success(), "a packet socket could be made");
}

} // namespace

std::vector<Check> network_checks()
{
    const std::vector<Need> off{policy::Feature::NetworkOff};
    return {
        {kGroup, "off has no interface but the loopback", off, no_interface},
        {kGroup, "off has no route", off, no_route},
        {kGroup, "off finds no name", off, no_name},
        closed("off reaches no public address", "192.0.2.1", 80),
        closed("off reaches no name server", "8.8.8.8", 53),
        closed("off reaches no metadata service", "169.254.169.254", 80),
        closed("off reaches no private address", "10.0.0.1", 80),
        closed("off reaches nothing over IPv6", "2001:db8::1", 80),
        closed("off reaches no metadata service over IPv6", "fd00:ec2::254", 80),
        {kGroup, "off does not reach the host's loopback", off, host_loopback},
        {kGroup, "off has a loopback of its own", off, own_loopback},
        {kGroup, "off gives no raw packets", off, no_raw_packets},
    };
}

} // namespace berth::conformance
