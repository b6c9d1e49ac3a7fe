// A port of the sandbox's own loopback, dialled from outside.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.hpp"
#include "conformance/check.hpp"
#include "conformance/reach.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "ports";

/// What comes through a connection until a newline, its end, or the end of our patience.
Result<std::string> line_of(int fd)
{
    std::string out;
    const auto until = Context::in(20s);
    while (!out.contains('\n')) {
        pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
        const auto left = until - system_clock().steady();
        if (left <= 0s || ::poll(&ready, 1, static_cast<int>(left / 1ms) + 1) <= 0)
            return fail(Code::DeadlineExceeded, "no answer came through the connection");
        char buffer[4096];
        const ssize_t n = ::read(fd, &buffer[0], sizeof buffer);
        if (n <= 0) return fail(Code::Internal, "the connection ended after '{}'", out);
        out.append(&buffer[0], static_cast<std::size_t>(n));
    }
    return out;
}

Status says(int fd, const std::string& word)
{
    BERTH_CHECK(write_all(fd, word + "\n"));
    BERTH_TRY(const auto answer, line_of(fd));
    return same("the answer", answer, "heard " + word + "\n");
}

struct Server {
    SandboxHandle sandbox;
    std::uint16_t port = 0;
};

/// Nothing where the template has no program to listen with.
Result<std::optional<Server>> serving(Context& c, bool version_six = false)
{
    Server out{.port = 7392};
    BERTH_TRY(auto argv, listening(c, out.port, version_six));
    if (argv.empty()) return std::optional<Server>{};
    BERTH_TRY(out.sandbox, c.own());
    const auto exec = Context::command(std::move(argv));
    BERTH_CHECK(c.start(out.sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(out.sandbox, exec.id, "listening", from));
    return out;
}

constexpr const char* kNoServer = "the template has no python3 or perl to listen with";

Status dials(Context& c)
{
    BERTH_TRY(const auto server, serving(c));
    if (!server) return c.skip(kNoServer);
    BERTH_TRY(const auto connection,
              step("dialling", c.await(c.backend().dial(server->sandbox, server->port))));
    BERTH_CHECK(says(connection.get(), "one"));
    return says(connection.get(), "two");
}

Status several(Context& c)
{
    BERTH_TRY(const auto server, serving(c));
    if (!server) return c.skip(kNoServer);
    for (int i = 0; i < 5; ++i) {
        BERTH_TRY(const auto connection,
                  step("dialling", c.await(c.backend().dial(server->sandbox, server->port))));
        BERTH_CHECK(says(connection.get(), fmt::format("call {}", i)));
    }
    return {};
}

Status by_another_process(Context& c)
{
    BERTH_TRY(const auto server, serving(c));
    if (!server) return c.skip(kNoServer);
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto connection, step("dialling", c.await(other->dial(server->sandbox, server->port))));
    return says(connection.get(), "from elsewhere");
}

Status nobody_listens(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    return refused("a port where nobody listens", c.await(c.backend().dial(sandbox, 7393)),
                   Code::Unavailable);
}

Status zero(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    return refused("port 0", c.await(c.backend().dial(sandbox, 0)));
}

Status version_six(Context& c)
{
    BERTH_TRY(const auto six, c.sh("test -e /proc/net/if_inet6 && grep -q lo /proc/net/if_inet6"));
    if (!six.outcome.status.success()) return c.skip("the sandbox has no IPv6 on its loopback");
    BERTH_TRY(const auto server, serving(c, true));
    if (!server) return c.skip(kNoServer);
    BERTH_TRY(const auto connection,
              step("dialling", c.await(c.backend().dial(server->sandbox, server->port))));
    return says(connection.get(), "six");
}

Status of_the_host(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    return refused("a port of one that is gone", c.await(c.backend().dial(sandbox, 80)), Code::NotFound);
}

} // namespace

std::vector<Check> port_checks()
{
    const std::vector<Need> ports{Operation::Ports};
    return {
        {kGroup, "a server inside answers", ports, dials},
        {kGroup, "it answers again and again", ports, several},
        {kGroup, "it answers another process", ports, by_another_process},
        {kGroup, "a port where nobody listens is unavailable", ports, nobody_listens},
        {kGroup, "port 0 is refused", ports, zero},
        {kGroup, "a server on the IPv6 loopback answers", ports, version_six},
        {kGroup, "a sandbox that is gone has no ports", ports, of_the_host},
    };
}

} // namespace berth::conformance
