// What a server of ours costs on top of what it serves: a call, a command, a stream, a large file, each
// beside the least that could do the same. Requests are compared by the processor time they take, so that
// whatever else runs on the machine takes nothing away from either side.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "backend/e2b/api.hpp"
#include "backend/e2b/envd.hpp"
#include "base/io.hpp"
#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/echo.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "bench/served.hpp"
#include "bench/stream_reader.hpp"
#include "protocol/connect/envelope.hpp"
#include "protocol/e2b/process.hpp"
#include "sys/launch.hpp"

namespace berth::bench {

namespace {

constexpr const char* kEcho = "a hand-written echo, processor time of a request";
constexpr const char* kPost = "a JSON POST, processor time";
constexpr const char* kTrivial = "a trivial request";
constexpr const char* kExec = "exec of true";
constexpr const char* kAllowed = "R0 + 3 x a trivial request";
constexpr const char* kRelay = "a pipe to a socket";
constexpr const char* kStream = "an exec's stream";
constexpr const char* kUp = "upload";
constexpr const char* kDown = "download";
constexpr const char* kUpMemory = "upload, memory it took";
constexpr const char* kDownMemory = "download, memory it took";
constexpr std::size_t kConnections = 16;
constexpr std::size_t kRequests = 40; ///< of each connection in a sample
constexpr std::size_t kWrite = std::size_t{64} << 10;
constexpr std::size_t kWrites = 768; ///< 48 MiB: all of it is in the log when the last byte was written
constexpr std::uint64_t kFile = 1'000'000'000;
constexpr std::uint64_t kFileCi = 200'000'000;
constexpr double kFlat = 32.0 * 1024 * 1024;

/// A sandbox of a server, and what its clients send with each request.
struct Box {
    std::string id;
    std::map<std::string, std::string> headers;
};

/// The server, a client of it, and one sandbox. Gone with this.
class Stage {
    OwnData data_; ///< first, and so gone last

public:
    [[nodiscard]] static Result<std::unique_ptr<Stage>> set(Context& context)
    {
        BERTH_TRY(auto data, OwnData::make(context, "http"));
        std::unique_ptr<Stage> out(new Stage(std::move(data)));
        BERTH_TRY(out->server, Served::start(out->data_.path()));
        BERTH_TRY(const auto config, out->server->config());
        out->api_ = std::make_unique<e2b_client::Api>(config);
        out->client = std::make_unique<http_client::Client>(config.api.place);
        e2b::NewSandbox wish;
        wish.template_id = "base";
        wish.timeout = std::chrono::hours(1);
        BERTH_TRY(const auto made, out->api_->create(wish));
        out->box = {.id = made.id,
                    .headers = {{"E2b-Sandbox-Id", made.id},
                                {"E2b-Sandbox-Port", "49983"},
                                {"X-Access-Token", made.token},
                                {"Content-Type", "application/connect+json"}}};
        return out;
    }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;
    ~Stage()
    {
        if (api_ && !box.id.empty()) (void)api_->kill(box.id);
    }

    std::unique_ptr<Served> server;
    std::unique_ptr<http_client::Client> client;
    Box box;

private:
    explicit Stage(OwnData data) : data_(std::move(data)) {}
    std::unique_ptr<e2b_client::Api> api_;
};

Result<http_client::HttpAnswer> call(Stage& stage, http_client::HttpRequest request,
                                     const ByteSink& sink = {})
{
    request.keep = true;
    auto got = stage.client->call(std::move(request), {}, sink);
    if (got.answer && got.answer->status / 100 != 2)
        return fail(Code::Internal, "it answered {}: {}", got.answer->status, got.answer->body);
    return std::move(got.answer);
}

http_client::HttpRequest start_of(const Stage& stage, std::vector<std::string> words)
{
    e2b::StartRequest start;
    start.process.cmd = words.front();
    start.process.args.assign(words.begin() + 1, words.end());
    start.stdin_open = false;
    return {.method = "POST",
            .target = "/process.Process/Start",
            .headers = stage.box.headers,
            .body = connect::encode(e2b::start_request(start))};
}

Result<double> processor_time_of(pid_t pid, Load& load, const std::string& request)
{
    BERTH_TRY(const double before, processor_time(pid));
    BERTH_CHECK(load.run(request, kRequests));
    BERTH_TRY(const double after, processor_time(pid));
    return (after - before) / static_cast<double>(kRequests * load.connections());
}

/// E2B's call for more time, where there is more already: a key, a route and a document are looked at, and
/// nothing is done.
Result<Table> requests(Context& context, Stage& stage)
{
    Table table{.name = "requests"};
    BERTH_TRY(const auto echo, Echo::start());
    BERTH_TRY(auto to_echo, Load::connect(echo.port(), kConnections));
    BERTH_TRY(auto to_server, Load::connect(stage.server->port(), kConnections));
    const std::string body = R"({"duration":15})";
    const std::string target = fmt::format("/sandboxes/{}/refreshes", stage.box.id);
    const std::string request =
        json_post(target, fmt::format("X-API-Key: {}\r\n", stage.server->key()), body);
    std::vector<Case> cases;
    cases.push_back({.name = kEcho, .run = [&] { return processor_time_of(echo.pid(), to_echo, request); }});
    cases.push_back(
        {.name = kPost, .run = [&] { return processor_time_of(stage.server->pid(), to_server, request); }});
    table.claims = {{.subject = kPost,
                     .reference = kEcho,
                     .relation = Relation::Lead,
                     .bar = Bar{.limit = 0.6, .stretch = 0.8}}};
    measure(context, table, std::move(cases), {.rounds = std::min(context.options().rounds, 50u)});
    return table;
}

/// The reference and three times what a request costs that asks for nothing, sample by sample.
Series allowed(const Table& table)
{
    Series out{.name = kAllowed};
    const auto* const r0 = table.find(kR0);
    const auto* const trivial = table.find(kTrivial);
    for (std::size_t i = 0; r0 != nullptr && trivial != nullptr && i < r0->repeats.size(); ++i) {
        auto& sums = out.repeats.emplace_back();
        const auto& few = trivial->repeats[i];
        for (std::size_t k = 0; k < std::min(r0->repeats[i].size(), few.size()); ++k)
            sums.push_back(r0->repeats[i][k] + 3 * few[k]);
    }
    return out;
}

Result<Table> execs(Context& context, Stage& stage)
{
    Table table{.name = "exec over HTTP"};
    std::vector<Case> cases;
    BERTH_TRY(auto r0, reference(kR0));
    cases.push_back(std::move(r0));
    cases.push_back({.name = kTrivial, .run = [&]() -> Result<double> {
                         const Stopwatch watch;
                         BERTH_TRY(const auto answer, call(stage, {.method = "GET", .target = "/healthz"}));
                         const double taken = watch.nanoseconds();
                         if (answer.body != "ok\n") return fail(Code::Internal, "it is not well");
                         return taken;
                     }});
    cases.push_back({.name = kExec, .run = [&]() -> Result<double> {
                         auto request = start_of(stage, {kTrue});
                         const Stopwatch watch;
                         BERTH_TRY(const auto answer, call(stage, std::move(request)));
                         const double taken = watch.nanoseconds();
                         if (answer.body.find("exit status 0") == std::string::npos)
                             return fail(Code::Internal, "no end was told");
                         return taken;
                     }});
    table.claims = {{.subject = kExec, .reference = kAllowed, .bar = Bar{.limit = 1}},
                    {.subject = kExec, .reference = std::string(kR0)}};
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    table.series.push_back(allowed(table));
    return table;
}

std::vector<std::string> writer()
{
    return {"/bin/dd", "if=/dev/zero", fmt::format("bs={}", kWrite), fmt::format("count={}", kWrites),
            "status=none"};
}

/// Two connected sockets of loopback, as a client and a server have them.
Result<std::array<UniqueFd, 2>> connected()
{
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (!listener || ::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), generic, &size) != 0)
        return fail_errno("listening on loopback");
    UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client || ::connect(client.get(), generic, size) != 0) return fail_errno("connecting to loopback");
    UniqueFd server(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!server) return fail_errno("accepting a connection");
    return std::array<UniqueFd, 2>{std::move(client), std::move(server)};
}

/// Everything that comes from `in`, to whoever takes it.
template <class Take> Result<std::size_t> drain(int in, Take take)
{
    std::string buffer(kWrite, '\0');
    for (std::size_t seen = 0;;) {
        const auto n = ::read(in, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading");
        if (n == 0) return seen;
        BERTH_CHECK(take(std::string_view(buffer).substr(0, static_cast<std::size_t>(n))));
        seen += static_cast<std::size_t>(n);
    }
}

/// The reference: a writer, a loop from its pipe to a socket, and a reader, nothing else.
Result<double> plain_relay()
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
    const UniqueFd out(ends[0]);
    BERTH_TRY(auto sockets, connected());
    const Stopwatch watch;
    sys::StepList list;
    list.dup(list.own(UniqueFd(ends[1])), 1);
    list.exec_path({writer().front()}, writer(), {});
    auto launched = sys::launch(list, {});
    if (!launched) return std::unexpected(std::move(launched).error());
    list = {}; // and with it our end of the pipe
    auto child = sys::Child::own(launched->pid, std::move(launched->pidfd));
    Result<std::size_t> sent = 0;
    std::thread relay([&] {
        sent = drain(out.get(), [&](std::string_view piece) { return write_all(sockets[1].get(), piece); });
        sockets[1].reset();
    });
    const auto seen = drain(sockets[0].get(), [](std::string_view) { return Status{}; });
    relay.join();
    const double taken = watch.nanoseconds();
    BERTH_TRY([[maybe_unused]] const auto status, child.wait());
    if (!seen || *seen != kWrite * kWrites) return fail(Code::Internal, "not all came through the relay");
    return static_cast<double>(*seen) * 1e9 / taken;
}

/// As much of a client as the reference has of one: it reads, and knows when it has everything.
Result<double> by_the_server(Stage& stage)
{
    BERTH_TRY(const auto socket, dial(stage.server->port()));
    const auto wish = start_of(stage, writer());
    std::string headers;
    for (const auto& [name, value] : wish.headers) headers += fmt::format("{}: {}\r\n", name, value);
    const std::string request =
        fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}Content-Length: {}\r\n\r\n{}", wish.target,
                    headers, wish.body.size(), wish.body);
    StreamReader reader;
    const Stopwatch watch;
    BERTH_CHECK(write_all(socket.get(), request));
    std::string buffer(kWrite, '\0');
    while (!reader.complete()) {
        const auto n = ::read(socket.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading the stream");
        if (n == 0) return fail(Code::Unavailable, "the server hung up");
        BERTH_CHECK(reader.take(std::string_view(buffer).substr(0, static_cast<std::size_t>(n))));
    }
    const double taken = watch.nanoseconds();
    if (!reader.ended_well() || reader.output() != kWrite * kWrites)
        return fail(Code::Internal, "{} of {} bytes came", reader.output(), kWrite * kWrites);
    return static_cast<double>(reader.output()) * 1e9 / taken;
}

Result<Table> streams(Context& context, Stage& stage)
{
    Table table{.name = "writes of 64 KiB"};
    std::vector<Case> cases;
    cases.push_back({.name = kRelay, .run = plain_relay, .unit = Unit::BytesPerSecond});
    cases.push_back(
        {.name = kStream, .run = [&] { return by_the_server(stage); }, .unit = Unit::BytesPerSecond});
    table.claims = {
        {.subject = kStream, .reference = kRelay, .relation = Relation::Share, .bar = Bar{.limit = 0.6}}};
    measure(context, table, std::move(cases), {.rounds = std::min(context.options().rounds / 10 + 1, 10u)});
    return table;
}

Result<Table> files(Context& context, Stage& stage)
{
    Table table{.name = "a file of 1 GB"};
    const std::uint64_t size = context.options().ci ? kFileCi : kFile;
    if (context.options().ci) table.name = "a file of 200 MB";
    Series rates[2] = {{.name = kUp, .unit = Unit::BytesPerSecond},
                       {.name = kDown, .unit = Unit::BytesPerSecond}};
    Series grown[2] = {{.name = kUpMemory, .unit = Unit::Bytes}, {.name = kDownMemory, .unit = Unit::Bytes}};
    const pid_t server = stage.server->pid();
    for (unsigned i = 0; i < context.options().repeats && !context.interrupted(); ++i) {
        for (const bool up : {true, false}) {
            context.progress(
                fmt::format("http: {} of {}, {}", i + 1, context.options().repeats, up ? kUp : kDown));
            BERTH_CHECK(forget_peak(server));
            BERTH_TRY(const double before, memory_of(server, "VmRSS:"));
            std::uint64_t moved = 0;
            const std::string block(kWrite, 'x');
            http_client::HttpRequest request{.method = up ? "POST" : "GET",
                                             .target = "/files?path=/home/user/big",
                                             .headers = stage.box.headers};
            request.headers["Content-Type"] = "application/octet-stream";
            if (up)
                request.source = [&]() -> Result<std::string> {
                    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWrite, size - moved));
                    moved += n;
                    return block.substr(0, n);
                };
            const Stopwatch watch;
            BERTH_TRY([[maybe_unused]] const auto answer,
                      call(stage, std::move(request), [&](std::string_view piece) -> Status {
                          if (!up) moved += piece.size();
                          return {};
                      }));
            const double taken = watch.nanoseconds();
            if (moved != size)
                table.problems.push_back(fmt::format("{}: {} of {} bytes", up ? kUp : kDown, moved, size));
            BERTH_TRY(const double most, memory_of(server, "VmHWM:"));
            rates[up ? 0 : 1].repeats.push_back({static_cast<double>(size) * 1e9 / taken});
            grown[up ? 0 : 1].repeats.push_back({std::max(most - before, 0.0)});
        }
    }
    for (auto& one : rates) table.series.push_back(std::move(one));
    for (auto& one : grown) table.series.push_back(std::move(one));
    for (const char* name : {kUpMemory, kDownMemory})
        table.claims.push_back(
            {.subject = name, .reference = {}, .relation = Relation::Amount, .bar = Bar{.limit = kFlat}});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_http(Context& context)
{
    BERTH_TRY(const auto stage, Stage::set(context));
    std::vector<Table> tables;
    for (const auto part : {requests, execs, streams, files}) {
        BERTH_TRY(auto table, part(context, *stage));
        tables.push_back(std::move(table));
    }
    return tables;
}

} // namespace berth::bench
