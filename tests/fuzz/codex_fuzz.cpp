// Every message a client or a server of Codex's exec-server protocol may send: what parses is written and
// read back as itself, and a path stays absolute and free of dots whatever its URI says.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "protocol/codex/files.hpp"
#include "protocol/codex/http.hpp"
#include "protocol/codex/path_uri.hpp"
#include "protocol/codex/process.hpp"
#include "protocol/codex/process_client.hpp"
#include "protocol/jsonrpc/message.hpp"

namespace {

using namespace berth;

void require(bool holds)
{
    if (!holds) std::abort();
}

void paths(std::string_view uri)
{
    const auto path = codex::read_path(uri);
    if (!path) return;
    require(path->starts_with('/') && path->find('\0') == std::string::npos);
    require(path->find("/../") == std::string::npos && !path->ends_with("/..") &&
            path->find("//") == std::string::npos);
    const auto again = codex::read_path(codex::path_uri(*path));
    require(again ? *again == *path : again.error().code == Code::Unsupported);
}

void parameters(const json::Value& params)
{
    (void)codex::read_start(params);
    (void)codex::read_read(params);
    (void)codex::read_write(params);
    (void)codex::read_signal(params);
    (void)codex::read_process(params);
    (void)codex::read_path_params(params);
    (void)codex::read_write_file(params);
    (void)codex::read_copy(params);
    (void)codex::read_walk(params);
    (void)codex::read_open(params);
    (void)codex::read_read_block(params);
    (void)codex::read_write_block(params);
    (void)codex::read_handle(params);
    (void)codex::read_watch(params);
    if (const auto http = codex::read_http(params))
        for (const auto& [name, value] : http->headers)
            require((name + value).find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
    if (const auto intent = codex::read_intent(json::Reader(params))) {
        const json::Value written(codex::write_intent(*intent));
        const auto again = codex::read_intent(json::Reader(written));
        require(again && *again == *intent);
    }
}

void messages(std::string_view text)
{
    const auto message = jsonrpc::decode(text, {.bytes = 1 << 20, .depth = 32, .values = 1000});
    if (!message) return;
    require(jsonrpc::count_values(text) <= 1000);
    if (const auto* request = std::get_if<jsonrpc::Request>(&*message)) {
        const auto again = jsonrpc::decode(jsonrpc::encode(*request));
        require(again && std::get<jsonrpc::Request>(*again).id == request->id);
        parameters(request->params);
    }
    if (const auto* told = std::get_if<jsonrpc::Notification>(&*message))
        (void)codex::read_process_event(told->method, told->params);
    if (const auto* answer = std::get_if<jsonrpc::Response>(&*message)) {
        (void)codex::read_write_answer(answer->result);
        if (const auto read = codex::read_read_answer(answer->result)) (void)codex::complete(*read, 0);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    if (bytes.front() % 2 == 0)
        paths(bytes.substr(1));
    else
        messages(bytes.substr(1));
    return 0;
}
