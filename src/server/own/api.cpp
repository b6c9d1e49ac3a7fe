#include "server/own/api.hpp"

#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "server/gate/tenant.hpp"

namespace berth::own {

namespace {

http::Response failure(const Error& error, int status)
{
    return http::json_response(status, json::error_document(error));
}

} // namespace

Api::Api(gate::Ground& ground) : ground_(ground)
{
    const auto add = [&](const char* method, const char* pattern, Work work, const char* answers,
                         const char* summary) {
        router_.add(method, pattern, Handler{.work = work, .summary = summary, .answers = answers});
    };
    add("GET", "/openapi.json", &Api::describe_all, "200", "This document");
    add("POST", "/v1/sandboxes", &Api::create, "201", "Make a sandbox, or find the one of a key");
    add("GET", "/v1/sandboxes", &Api::list, "200", "List sandboxes");
    add("GET", "/v1/sandboxes/{sandbox}", &Api::get, "200", "One sandbox, after its backend was asked");
    add("DELETE", "/v1/sandboxes/{sandbox}", &Api::destroy, "200", "Destroy a sandbox");
    add("POST", "/v1/sandboxes/{sandbox}/start", &Api::start, "200", "Make it usable, whatever that takes");
    add("POST", "/v1/sandboxes/{sandbox}/stop", &Api::stop, "200", "End its processes, keep its files");
    add("POST", "/v1/sandboxes/{sandbox}/pause", &Api::pause, "200", "Freeze it with its memory");
    add("POST", "/v1/sandboxes/{sandbox}/resume", &Api::resume, "200", "Let a paused one go on");
    add("POST", "/v1/sandboxes/{sandbox}/fork", &Api::fork, "201", "Make sandboxes from its files");
    add("POST", "/v1/sandboxes/{sandbox}/snapshots", &Api::take_snapshot, "201", "Keep its files");
    add("POST", "/v1/sandboxes/{sandbox}/prove", &Api::prove, "201",
        "Try its policy out from inside; the receipt says whether it holds");
    add("GET", "/v1/sandboxes/{sandbox}/receipts", &Api::receipts, "200", "Its receipts, oldest first");
    add("GET", "/v1/snapshots", &Api::list_snapshots, "200", "List snapshots, newest first");
    add("GET", "/v1/snapshots/{snapshot}", &Api::get_snapshot, "200", "One snapshot");
    add("POST", "/v1/snapshots/{snapshot}/restore", &Api::restore, "201", "Make a sandbox from a snapshot");
    add("DELETE", "/v1/snapshots/{snapshot}", &Api::remove_snapshot, "204", "Remove a snapshot");
    add("GET", "/v1/events", &Api::events, "200",
        "What happened, after a sequence number; with follow=true as a stream (text/event-stream) that can "
        "be "
        "resumed by Last-Event-ID");
    add("GET", "/v1/policies", &Api::list_policies, "200", "Names of the presets");
    add("POST", "/v1/policies/check", &Api::check_policy, "200",
        "The whole document that a policy stands for; 400 says where it is not valid");
    add("POST", "/v1/policies/explain", &Api::explain_policy, "200",
        "Where and how each rule of a policy is held here");
    add("GET", "/v1/policies/{policy}", &Api::show_policy, "200", "A preset as a whole document");
    add("GET", "/v1/sandboxes/{sandbox}/policy", &Api::sandbox_policy, "200",
        "Its policy, and where and how each rule is held");
    add("POST", "/v1/sandboxes/{sandbox}/execs", &Api::start_exec, "201", "Start a command");
    add("GET", "/v1/sandboxes/{sandbox}/execs", &Api::list_execs, "200", "List commands, oldest first");
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}", &Api::get_exec, "200", "One command");
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}/events", &Api::exec_events, "200",
        "Its events as a stream (text/event-stream) that can be resumed by Last-Event-ID");
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}/stream", &Api::stream_exec, "101",
        "Its events, input, signals and sizes on one WebSocket that can be resumed by after=N");
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/yield", &Api::yield_exec, "200",
        "{input or input_base64, write, close, next_seq, yield_ms, max_output_tokens}: types that, waits "
        "a while and tells what it printed; it runs on");
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/input", &Api::write_input, "200",
        "The body to its input; the same write id writes nothing twice");
    add("DELETE", "/v1/sandboxes/{sandbox}/execs/{exec}/input", &Api::close_input, "204", "Close its input");
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/signal", &Api::send_signal, "204", "Send it a signal");
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/size", &Api::resize, "204", "Resize its terminal");
    add("DELETE", "/v1/sandboxes/{sandbox}/execs/{exec}", &Api::kill_exec, "204",
        "End it: TERM, and after grace_seconds (5) KILL to it and everything it started; answers when it has "
        "ended");
    add("GET", "/v1/sandboxes/{sandbox}/files", &Api::read_file, "200", "The contents of a file");
    add("PUT", "/v1/sandboxes/{sandbox}/files", &Api::write_file, "204", "Replace or make a file");
    add("DELETE", "/v1/sandboxes/{sandbox}/files", &Api::remove_file, "204", "Remove a file or a tree");
    add("GET", "/v1/sandboxes/{sandbox}/stat", &Api::stat_file, "200", "What a path leads to");
    add("GET", "/v1/sandboxes/{sandbox}/directory", &Api::list_files, "200", "List a directory");
    add("PUT", "/v1/sandboxes/{sandbox}/directory", &Api::make_dir, "204",
        "Make a directory and its parents");
    add("GET", "/v1/sandboxes/{sandbox}/archive", &Api::read_tree, "200",
        "A directory with all below it, or one file, as a tar");
    add("PUT", "/v1/sandboxes/{sandbox}/archive", &Api::write_tree, "204",
        "Unpack a tar below a directory; nothing is written of one that is cut off or hostile");
    add("GET", "/v1/sandboxes/{sandbox}/ports/{port}", &Api::reach_port, "101",
        "A connection to a port of it as bytes, with Upgrade: tcp; else a request to the program there");
    for (const char* const method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
        add(method, "/v1/sandboxes/{sandbox}/ports/{port}/{path...}", &Api::reach_port, "200",
            "A request to the program that listens on a port of it, WebSocket too");
}

Task<Result<SandboxRecord>> Api::record_of(const Call& call)
{
    const std::string& id = call.parameters.front();
    const auto missing = [&] { return fail(Code::NotFound, "no sandbox '{}'", printable(id, 60)); };
    // Whole ids alone: a name or the beginning of an id would tell about those of others.
    if (!is_id(id, "sbx_")) co_return missing();
    auto found = co_await lifecycle().find(id);
    if (!found || !gate::owned(found->spec, call.tenant)) co_return missing();
    co_return *std::move(found);
}

Task<Result<SnapshotRecord>> Api::snapshot_of(const Call& call)
{
    const std::string& id = call.parameters.front();
    const auto missing = [&] { return fail(Code::NotFound, "no snapshot '{}'", printable(id, 60)); };
    if (!is_id(id, "snap_")) co_return missing();
    auto found = co_await lifecycle().find_snapshot(id);
    if (!found || found->internal || !gate::owned(found->spec, call.tenant)) co_return missing();
    co_return *std::move(found);
}

Task<Result<json::Value>> Api::body_of(Call& call)
{
    BERTH_CO_TRY(const auto text, co_await call.exchange.body(kBodyLimit));
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) co_return json::Value(json::Object{});
    BERTH_CO_TRY(auto document, json::parse(text));
    if (!document.is_object()) co_return fail(Code::Invalid, "the body must be a JSON object");
    co_return document;
}

Task<void> Api::answer(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    std::string_view secret = head.value("x-api-key");
    if (const auto bearer = head.value("authorization"); secret.empty() && bearer.starts_with("Bearer "))
        secret = bearer.substr(7);
    const auto tenant = gate::tenant_of(ground_, secret);
    if (!tenant && head.path != "/openapi.json") {
        const Error error{.code = Code::Denied,
                          .message = "no valid key: send it as Authorization: Bearer KEY"};
        (void)co_await exchange.send(failure(error, 401).with("WWW-Authenticate", "Bearer"));
        co_return;
    }
    if (tenant && !ground_.rate.take(*tenant, system_clock().steady())) {
        const Error error{.code = Code::Exhausted, .message = "too many requests"};
        (void)co_await exchange.send(failure(error, 429));
        co_return;
    }
    auto match = router_.find(head);
    if (match.route == nullptr) {
        const Error error{.code = Code::NotFound,
                          .message =
                              match.path_known ? "this method is not allowed here" : "there is nothing here"};
        (void)co_await exchange.send(failure(error, match.path_known ? 405 : 404));
        co_return;
    }
    Call call{.exchange = exchange,
              .tenant = tenant.value_or(""),
              .parameters = std::move(match.parameters),
              .by_bearer = ground_.authentication && head.value("x-api-key").empty()};
    auto answer = co_await (this->*match.route->handler.work)(call);
    if (exchange.begun()) co_return;
    if (answer) {
        (void)co_await exchange.send(*std::move(answer));
        co_return;
    }
    const int status = exchange.too_large() ? 413 : http::status_of(answer.error());
    (void)co_await exchange.send(failure(answer.error(), status));
}

Task<Answer> Api::describe_all(Call&) { co_return http::json_response(200, describe()); }

json::Object Api::describe() const
{
    json::Object paths;
    for (const auto& route : router_.routes()) {
        auto pattern = route.pattern;
        if (pattern.ends_with("...}")) pattern.erase(pattern.size() - 4, 3);
        auto& path = paths[pattern];
        if (!path.is_object()) path = json::Object{};
        json::Object operation;
        operation["summary"] = route.handler.summary;
        json::Array parameters;
        for (const auto& part : route.parts) {
            if (!part.starts_with('{')) continue;
            json::Object one;
            one["name"] = part.substr(1, part.find_first_of(".}") - 1);
            one["in"] = "path";
            one["required"] = true;
            one["schema"] = json::Object{{"type", "string"}};
            parameters.emplace_back(std::move(one));
        }
        if (!parameters.empty()) operation["parameters"] = std::move(parameters);
        json::Object responses;
        responses[route.handler.answers] = json::Object{{"description", "done"}};
        responses["default"] = json::Object{
            {"description", "{\"error\":{\"code\":…,\"message\":…,\"trail\":[…]}}, with the code's status"}};
        operation["responses"] = std::move(responses);
        std::string method = route.method;
        for (auto& c : method) c = static_cast<char>(c - 'A' + 'a');
        path.as_object()[method] = std::move(operation);
    }
    json::Object out;
    out["openapi"] = "3.1.0";
    out["info"] = json::Object{{"title", "berth"}, {"version", "1"}};
    out["paths"] = std::move(paths);
    out["components"] = json::Object{
        {"securitySchemes", json::Object{{"key", json::Object{{"type", "http"}, {"scheme", "bearer"}}}}}};
    out["security"] = json::Array{json::Object{{"key", json::Array{}}}};
    return out;
}

void Api::leave()
{
    leaving_ = true;
    for (auto& one : attended_) one.emit(boost::asio::cancellation_type::terminal);
}

} // namespace berth::own
