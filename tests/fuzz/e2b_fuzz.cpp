// Every message a client of E2B's protocol may send, or be told: whatever parses is written and read back as
// itself where both sides exist, and nothing is read beyond what was given.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "protocol/connect/envelope.hpp"
#include "protocol/connect/failure.hpp"
#include "protocol/e2b/filesystem.hpp"
#include "protocol/e2b/listing.hpp"
#include "protocol/e2b/multipart.hpp"
#include "protocol/e2b/process.hpp"
#include "protocol/e2b/sandbox.hpp"
#include "protocol/e2b/sandbox_client.hpp"
#include "protocol/e2b/template.hpp"
#include "protocol/e2b/template_client.hpp"

namespace {

using namespace berth;

void require(bool holds)
{
    if (!holds) std::abort();
}

void envelopes(std::string_view bytes)
{
    connect::EnvelopeReader whole(1000), parts(1000);
    whole.feed(bytes);
    std::string all, piecewise;
    bool whole_failed = false, parts_failed = false;
    for (;;) {
        const auto next = whole.next();
        whole_failed = !next;
        if (!next || !*next) break;
        all += connect::encode((*next)->payload, (*next)->flags);
    }
    for (const char& byte : bytes) {
        if (parts_failed) break;
        parts.feed(std::string_view(&byte, 1));
        const auto next = parts.next();
        parts_failed = !next;
        if (next && *next) piecewise += connect::encode((*next)->payload, (*next)->flags);
    }
    require(all == piecewise && whole_failed == parts_failed);
    require(bytes.starts_with(all));
}

void messages(std::string_view text)
{
    if (const auto start = e2b::read_start(text)) {
        const auto again = e2b::read_start(e2b::start_request(*start));
        require(again && again->process.cmd == start->process.cmd &&
                again->process.args == start->process.args && again->process.envs == start->process.envs &&
                again->tag == start->tag);
    }
    if (const auto call = e2b::read_process_call(text)) {
        const auto again = e2b::read_process_call(e2b::process_request(*call));
        require(again && again->process == call->process);
    }
    if (const auto build = e2b::read_build_start(text))
        for (const auto& step : build->steps) {
            require(!step.args.empty() && !e2b::to_string(step).empty());
            require(step.type != e2b::BuildStep::Type::Copy || e2b::is_files_hash(step.files_hash));
        }
    if (const auto build = e2b::read_build_start(text)) {
        const auto again = e2b::read_build_start(e2b::build_start_body(*build, false));
        require(again && again->steps.size() == build->steps.size() && again->start_cmd == build->start_cmd);
    }
    if (const auto made = e2b::read_registered(text)) require(e2b::is_template_id(made->id));
    (void)e2b::read_files_link(text);
    (void)e2b::read_build_status(text);
    (void)e2b::read_new_template(text);
    (void)e2b::read_tags(text, "target");
    (void)e2b::read_input_message(text);
    if (const auto event = e2b::read_event(text)) {
        const auto status = e2b::wait_status(*event);
        require(!status || (*status >= 0 && *status <= 0xffff));
    }
    (void)e2b::read_pids(text);
    (void)e2b::read_watch_message(text);
    if (const auto view = e2b::read_sandbox(text)) require(e2b::is_cloud_id(view->id));
    (void)e2b::read_sandboxes(text);
    (void)e2b::read_snapshot(text);
    (void)e2b::read_message(text);
    (void)e2b::read_filesystem_call(text);
    (void)e2b::read_new_sandbox(text, e2b::ApiVersion::V1);
    (void)e2b::read_new_sandbox(text, e2b::ApiVersion::V2);
    (void)e2b::read_network_update(text);
    (void)e2b::read_time(text, "timeout");
    (void)e2b::read_fork(text);
    (void)connect::read_end(text);
    (void)connect::read_failure(500, text);
}

void queries(std::string_view text)
{
    if (const auto filter = e2b::read_metadata_filter(text)) {
        const auto again = e2b::read_metadata_filter(e2b::metadata_filter(*filter));
        require(again && *again == *filter);
    }
    if (const auto token = e2b::parse_page_token(text))
        require(e2b::parse_page_token(e2b::encode(*token)).has_value());
    (void)e2b::parse_rfc3339(text);
    (void)e2b::boundary_of(text);
}

/// The same parts, however the bytes come.
std::string form(std::string_view body, std::size_t piece)
{
    e2b::MultipartReader reader("X");
    std::string out;
    for (std::size_t at = 0; at < body.size(); at += piece) {
        reader.feed(body.substr(at, piece));
        for (;;) {
            const auto event = reader.next();
            if (!event) return out + "!";
            if (!*event) break;
            if ((*event)->kind == e2b::MultipartReader::Event::Kind::Begin)
                out += "[" + (*event)->name + "|" + (*event)->filename + "|";
            out += (*event)->bytes;
            if ((*event)->kind == e2b::MultipartReader::Event::Kind::End) out += "]";
        }
    }
    return out;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    const auto rest = bytes.substr(1);
    switch (bytes.front() % 4) {
    case 0: envelopes(rest); break;
    case 1: messages(rest); break;
    case 2: queries(rest); break;
    default: (void)form(rest, rest.size() + 1), (void)form(rest, 3); break;
    }
    return 0;
}
