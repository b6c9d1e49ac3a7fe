#include "conformance/reach.hpp"

namespace berth::conformance {

namespace {

constexpr const char* kPythonConnect = R"(import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)
)";

constexpr const char* kPythonListen = R"(import socket, sys
six = sys.argv[2] == "6"
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("::1" if six else "127.0.0.1", int(sys.argv[1])))
s.listen(8)
print("listening", flush=True)
while True:
    c, _ = s.accept()
    for line in c.makefile("rb"):
        c.sendall(b"heard " + line)
    c.close()
)";

constexpr const char* kPerlConnect = R"(use IO::Socket::INET;
exit(IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => $ARGV[1], Proto => "tcp", Timeout => 3) ? 0 : 1);
)";

constexpr const char* kPerlListen = R"(use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $ARGV[0], Listen => 8, ReuseAddr => 1) or die;
print "listening\n";
while (my $c = $s->accept()) { $c->autoflush(1); while (my $l = <$c>) { print $c "heard $l"; } close $c; }
)";

Result<bool> has(Context& c, const std::string& program)
{
    BERTH_TRY(const auto ran, c.sh("command -v " + program));
    return ran.outcome.status.success();
}

} // namespace

Result<std::vector<std::string>> connecting(Context& c, const std::string& host, unsigned port)
{
    const std::string number = std::to_string(port);
    BERTH_TRY(const bool python, has(c, "python3"));
    if (python) return std::vector<std::string>{"python3", "-c", kPythonConnect, host, number};
    BERTH_TRY(const bool bash, has(c, "bash"));
    if (bash)
        return std::vector<std::string>{"bash", "-c", "exec 3<>\"/dev/tcp/$1/$2\"", "bash", host, number};
    BERTH_TRY(const bool perl, has(c, "perl"));
    if (perl) return std::vector<std::string>{"perl", "-e", kPerlConnect, host, number};
    return std::vector<std::string>{};
}

Result<std::vector<std::string>> listening(Context& c, unsigned port, bool version_six)
{
    const std::string number = std::to_string(port);
    BERTH_TRY(const bool python, has(c, "python3"));
    if (python)
        return std::vector<std::string>{"python3", "-c", kPythonListen, number, version_six ? "6" : "4"};
    BERTH_TRY(const bool perl, has(c, "perl"));
    if (perl && !version_six) return std::vector<std::string>{"perl", "-e", kPerlListen, number};
    return std::vector<std::string>{};
}

} // namespace berth::conformance
