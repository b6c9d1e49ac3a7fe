#include "backend/e2b/template_build.hpp"

#include <unistd.h>

#include <thread>

#include "backend/e2b/context_archive.hpp"
#include "base/brief.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 200ms;
constexpr auto kUploadPatience = 120s;
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kMostLines = 1'000'000;

/// The link is the server's word: perhaps of another machine, which gets the files and never our key.
Status upload(const e2b::FilesLink& link, const ContextArchive& archive)
{
    // What follows the path is the link's own business, and no part of an origin.
    const auto question = link.url.find('?');
    BERTH_TRY(auto origin, http_client::parse_url(link.url.substr(0, question)));
    origin.place.who = "the place for a template's files";
    http_client::Client client(origin.place);
    const int file = archive.file.get();
    http_client::HttpRequest request{
        .method = "PUT",
        .target = origin.path + (question == std::string::npos ? "" : link.url.substr(question)),
        .headers = link.headers};
    request.length = archive.size;
    request.source = [file]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        const auto n = ::read(file, piece.data(), piece.size());
        if (n < 0) return fail_errno("reading the packed files");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    };
    const auto got = client.call(request, {.patience = kUploadPatience});
    if (!got.answer) return std::unexpected(got.answer.error());
    if (got.answer->status >= 300)
        return std::unexpected(refusal(got.answer->status, got.answer->body).while_doing("uploading files"));
    return {};
}

Result<e2b::RegisteredTemplate> follow(Api& api, const e2b::RegisteredTemplate& which,
                                       const BuildListener& told)
{
    for (std::size_t seen = 0;;) {
        BERTH_TRY(const auto status, api.build_status(which, seen));
        for (const auto& line : status.lines) told(line);
        seen += status.lines.size();
        if (seen > kMostLines) return fail(Code::Unavailable, "the E2B server tells a log without end");
        if (!status.lines.empty()) continue; // there may be more
        if (status.state == "ready") return which;
        if (status.state == "error") {
            const auto where =
                status.failed_step.empty() ? "" : " at step " + printable(status.failed_step, 20);
            return fail(Code::Invalid, "the build failed{}: {}", where,
                        status.failure.empty() ? "no reason is given" : printable(status.failure, 400));
        }
        std::this_thread::sleep_for(kPoll);
    }
}

} // namespace

Result<e2b::RegisteredTemplate> Api::new_template(const e2b::NewTemplate& wish)
{
    // Twice the same is one template with two builds, of which one is never started.
    BERTH_TRY(const auto answer,
              call("POST", "/v3/templates", e2b::new_template_body(wish), Again::Harmless));
    return e2b::read_registered(answer.body);
}

Result<e2b::FilesLink> Api::files_link(const std::string& id, const std::string& hash)
{
    BERTH_TRY(const auto answer,
              call("GET", fmt::format("/templates/{}/files/{}", id, hash), {}, Again::Harmless));
    return e2b::read_files_link(answer.body);
}

Status Api::start_build(const e2b::RegisteredTemplate& which, const e2b::BuildStart& start, bool force)
{
    const auto target = fmt::format("/v2/templates/{}/builds/{}", which.id, which.build);
    auto done = call("POST", target, e2b::build_start_body(start, force), Again::Harmless);
    // Of a second try, whose first had arrived.
    if (!done && done.error().code != Code::Conflict) return std::unexpected(std::move(done).error());
    return {};
}

Result<e2b::BuildStatus> Api::build_status(const e2b::RegisteredTemplate& which, std::size_t seen)
{
    const auto target =
        fmt::format("/templates/{}/builds/{}/status?logsOffset={}", which.id, which.build, seen);
    BERTH_TRY(const auto answer, call("GET", target, {}, Again::Harmless));
    return e2b::read_build_status(answer.body);
}

Result<e2b::RegisteredTemplate> build_template(Api& api, TemplateWish wish, const BuildListener& told)
{
    const auto say = [&](std::string text) { told({.message = std::move(text), .step = {}}); };
    // All of it is packed before anything is asked for: what is missing here is no business of a server's.
    std::vector<ContextArchive> archives;
    for (auto& step : wish.start.steps) {
        if (step.type != e2b::BuildStep::Type::Copy) continue;
        BERTH_TRY(auto archive, pack_context(wish.context, step.args.front()));
        step.files_hash = archive.hash;
        archives.push_back(std::move(archive));
    }
    BERTH_TRY(const auto which, api.new_template(wish.what));
    for (const auto& archive : archives) {
        BERTH_TRY(const auto link, api.files_link(which.id, archive.hash));
        if (link.present && !wish.force) {
            say(fmt::format("files {} are there already", archive.hash.substr(0, 12)));
            continue;
        }
        if (link.url.empty()) continue;
        BERTH_CHECK(upload(link, archive));
        say(fmt::format("files {} uploaded ({})", archive.hash.substr(0, 12), brief(Bytes{archive.size})));
    }
    BERTH_CHECK(api.start_build(which, wish.start, wish.force));
    return follow(api, which, told);
}

} // namespace berth::e2b_client
