// Protects a sandbox's files from whoever has neither its token nor a link signed with it. Paths are
// resolved by the backend, inside the sandbox.

#include "server/e2b/files.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <set>
#include <utility>

#include <boost/asio/this_coro.hpp>

#include "base/encoding.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/multipart.hpp"
#include "protocol/e2b/signature.hpp"
#include "server/e2b/entry_info.hpp"
#include "server/e2b/file_headers.hpp"
#include "server/e2b/file_send.hpp"
#include "server/e2b/made_for.hpp"
#include "server/gate/spool.hpp"
#include "server/http/inflate.hpp"
#include "server/http/preflight.hpp"

namespace berth::e2b {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kUnpacked = std::size_t{256} << 10;
constexpr std::size_t kLongestPath = 4096;
constexpr std::size_t kLongestWord = 256;
constexpr std::size_t kSignature = 46; ///< "v1_" and 43 letters

SignedLink link_of(const http::RequestHead& head)
{
    const auto text = [&](std::string_view name) {
        const auto* const value = head.parameter(name);
        return value == nullptr ? std::string{} : *value;
    };
    SignedLink out{.path = text("path"),
                   .use = head.method == "POST" ? FileUse::Write : FileUse::Read,
                   .user = text("username")};
    if (const auto* const expiration = head.parameter("signature_expiration")) out.expiration = *expiration;
    return out;
}

/// Nothing, or why the request may not be.
std::string refusal(const http::RequestHead& head, const Entry& entry)
{
    if (entry.token.empty()) return {};
    if (const auto* const token = head.header("x-access-token"))
        return equal_secret(entry.token, *token) ? "" : "the access token is wrong";
    const auto* const given = head.parameter("signature");
    if (given == nullptr || given->empty()) return "missing signature query parameter";
    const auto link = link_of(head);
    if (!equal_secret(signature(link, entry.token), *given)) return "invalid signature";
    if (!link.expiration) return {};
    const auto seconds = parse_int(*link.expiration, 0, INT64_MAX / 2'000'000'000, "signature_expiration");
    if (!seconds || system_clock().now() >= WallTime(std::chrono::seconds(*seconds)))
        return "signature is already expired";
    return {};
}

/// Whoever has a link is the user it was signed for, whatever else the request says.
Task<std::expected<User, connect::Failure>> user_of(const EnvdCall& call, const SignedLink& link)
{
    const bool by_token =
        call.entry->token.empty() || call.exchange.head().header("x-access-token") != nullptr;
    return by_token ? user_of(call, link.user) : user_named(call, link.user);
}

/// What of a body becomes files: one after the other, each with its name.
class Uploads {
public:
    Uploads(EnvdCall& call, gate::Ground& ground) : call_(call), ground_(ground) {}

    struct Whole {
        std::string name; ///< as the part says; empty: the query's path
        UniqueFd contents;
        std::string bytes; ///< instead, of a small one: a form of thousands must not hold as many files open
    };
    Task<Result<std::vector<Whole>>> read();

private:
    Task<Result<std::string>> piece();
    Task<Result<std::vector<Whole>>> read_one();
    Task<Result<std::vector<Whole>>> read_form(std::string boundary);

    EnvdCall& call_;
    gate::Ground& ground_;
    std::optional<http::Inflater> inflater_;
    std::string packed_; ///< come, and not unpacked yet
    bool more_ = false;  ///< can be had without reading on
    std::uint64_t unpacked_ = 0;
};

Task<Result<std::string>> Uploads::piece()
{
    for (;;) {
        if (!more_) {
            BERTH_CO_TRY(auto bytes, co_await call_.exchange.read());
            if (!inflater_) co_return bytes;
            if (bytes.empty()) {
                if (!inflater_->done()) co_return fail(Code::Invalid, "the gzip body was cut off");
                co_return bytes;
            }
            packed_ += bytes;
        }
        // A little at a time, and not where everybody waits: a kilobyte may hold a megabyte.
        std::string out;
        BERTH_CO_TRY(more_,
                     co_await ground_.pool.call([&] { return inflater_->feed(packed_, out, kUnpacked); }));
        unpacked_ += out.size();
        if (unpacked_ > gate::kUploadLimit.count) co_return fail(Code::Exhausted, "the body is too large");
        if (!out.empty()) co_return out;
    }
}

Task<Result<std::vector<Uploads::Whole>>> Uploads::read()
{
    const auto& head = call_.exchange.head();
    const auto encoding = head.value("content-encoding");
    if (http::same_word(encoding, "gzip"))
        inflater_.emplace();
    else if (!encoding.empty() && !http::same_word(encoding, "identity"))
        co_return fail(Code::Invalid, "unsupported Content-Encoding '{}'", printable(encoding, 40));
    if (head.media_type() == "application/octet-stream") co_return co_await read_one();
    if (auto boundary = boundary_of(head.value("content-type")))
        co_return co_await read_form(*std::move(boundary));
    co_return fail(Code::Invalid, "Content-Type must be multipart/form-data or application/octet-stream");
}

Task<Result<std::vector<Uploads::Whole>>> Uploads::read_one()
{
    std::vector<Whole> out;
    BERTH_CO_TRY(auto spool, co_await gate::Spool::open(ground_));
    for (;;) {
        BERTH_CO_TRY(auto bytes, co_await piece());
        if (bytes.empty()) break;
        BERTH_CO_CHECK(co_await spool.add(std::move(bytes)));
    }
    BERTH_CO_TRY(auto contents, co_await spool.finish());
    out.push_back({.name = {}, .contents = std::move(contents)});
    co_return out;
}

Task<Result<std::vector<Uploads::Whole>>> Uploads::read_form(std::string boundary)
{
    constexpr std::size_t most = 10'000, most_large = 256, small = 64 * 1024;
    constexpr std::size_t held = std::size_t{64} << 20; // of small ones, in all
    std::size_t parts = 0, large = 0, kept = 0;
    std::string bytes_of_part;
    bool in_file = false;
    using Kind = MultipartReader::Event::Kind;
    MultipartReader reader(boundary);
    std::vector<Whole> out;
    std::optional<gate::Spool> spool; // of the part that is being read, when it is a file
    std::string name;
    while (!reader.done()) {
        BERTH_CO_TRY(auto bytes, co_await piece());
        if (bytes.empty()) co_return fail(Code::Invalid, "the form was cut off");
        reader.feed(bytes);
        for (;;) {
            BERTH_CO_TRY(auto event, reader.next());
            if (!event) break;
            if (event->kind == Kind::Begin) {
                if (++parts > most) co_return fail(Code::Invalid, "more than {} parts", most);
                in_file = event->name == "file";
                name = event->filename;
            } else if (event->kind == Kind::Data && in_file && spool) {
                BERTH_CO_CHECK(co_await spool->add(std::move(event->bytes)));
            } else if (event->kind == Kind::Data && in_file) {
                bytes_of_part += event->bytes;
                if (bytes_of_part.size() <= small && kept + bytes_of_part.size() <= held) continue;
                if (++large > most_large)
                    co_return fail(Code::Invalid, "more than {} large files at once", most_large);
                BERTH_CO_TRY(spool, co_await gate::Spool::open(ground_));
                BERTH_CO_CHECK(co_await spool->add(std::exchange(bytes_of_part, {})));
            } else if (event->kind == Kind::End && in_file) {
                Whole whole{.name = name};
                if (spool) {
                    BERTH_CO_TRY(whole.contents, co_await spool->finish());
                }
                kept += bytes_of_part.size();
                whole.bytes = std::exchange(bytes_of_part, {});
                out.push_back(std::move(whole));
                spool.reset();
                in_file = false;
            }
        }
    }
    // What follows the last boundary is nothing, but must be read.
    for (;;) {
        BERTH_CO_TRY(const auto rest, co_await piece());
        if (rest.empty()) break;
    }
    co_return out;
}

/// A file of the sandbox from one's contents, its directories made where they are missing.
Task<Status> put(EnvdCall& call, const User& user, const std::string& path, Uploads::Whole whole)
{
    UniqueFd contents = std::move(whole.contents);
    if (!contents) {
        contents.reset(::memfd_create("upload", MFD_CLOEXEC));
        if (!contents) co_return fail_errno("keeping an upload");
        BERTH_CO_CHECK(write_all(contents.get(), whole.bytes));
    }
    const auto fill = [&](std::string who) -> Task<Status> {
        if (::lseek(contents.get(), 0, SEEK_SET) != 0) co_return fail_errno("reading an upload");
        FileContents all{.source = UniqueFd(::dup(contents.get())), .limit = gate::kUploadLimit};
        co_return co_await fill_file_for(call, user, std::move(who), path, std::move(all));
    };
    auto done = co_await as_user(call, user, path, fill);
    if (done || done.error().code != Code::NotFound) co_return done;
    const std::string parent = path.substr(0, path.rfind('/'));
    BERTH_CO_CHECK(co_await as_user(call, user, parent, [&](std::string who) -> Task<Status> {
        co_return co_await make_dir_for(call, user, std::move(who), parent);
    }));
    co_return co_await as_user(call, user, path, fill);
}

int status_for(const Error& error)
{
    if (error.sys.value() == ENOSPC || error.sys.value() == EDQUOT) return 507;
    if (error.code == Code::Exhausted) return 413;
    return http::status_of(error);
}

} // namespace

bool Files::takes_unnamed(const http::RequestHead& head)
{
    return head.path == "/files" && (head.method == "GET" || head.method == "HEAD" || head.method == "POST");
}

EntryPtr Files::signer_of(const http::RequestHead& head) const
{
    const auto* const given = head.parameter("signature");
    if (given == nullptr) return nullptr;
    const auto link = link_of(head);
    // Hashed once for each sandbox.
    if (given->size() != kSignature || link.path.size() > kLongestPath || link.user.size() > kLongestWord ||
        link.expiration.value_or("").size() > kLongestWord)
        return nullptr;
    for (const auto& entry : sandboxes_.all())
        if (!entry->token.empty() && equal_secret(signature(link, entry->token), *given)) return entry;
    return nullptr;
}

Task<void> Files::answer(EnvdCall& call)
{
    const auto& head = call.exchange.head();
    if (head.method == "OPTIONS") {
        auto response = http::preflight(head);
        response.with("Access-Control-Allow-Origin", "*");
        (void)co_await call.exchange.send(std::move(response));
        co_return;
    }
    if (const auto why = refusal(head, *call.entry); !why.empty()) {
        co_await send_error(call.exchange, 401, why);
        co_return;
    }
    if (head.method == "GET" || head.method == "HEAD")
        co_await download(call);
    else if (head.method == "POST")
        co_await upload(call);
    else
        co_await send_error(call.exchange, 405, "this method is not allowed here");
}

Task<void> Files::download(EnvdCall& call)
{
    auto& exchange = call.exchange;
    const auto& head = exchange.head();
    const auto link = link_of(head);
    const auto user = co_await user_of(call, link);
    if (!user) {
        co_await send_error(exchange, 401, user.error().message);
        co_return;
    }
    const auto path = resolve_path(call, *user, link.path);
    if (!path) {
        co_await send_error(exchange, 400, path.error().message);
        co_return;
    }
    const auto accept = head.value("accept-encoding");
    if (!identity_acceptable(accept) && !gzip_acceptable(accept)) {
        co_await send_error(exchange, 406, "no acceptable encoding");
        co_return;
    }
    const auto entry = co_await as_user(call, *user, *path, [&](std::string who) -> Task<Result<FileEntry>> {
        co_return co_await call.backend.stat_file(call.handle, {.path = *path, .user = std::move(who)});
    });
    if (!entry && entry.error().code == Code::NotFound) {
        co_await send_error(exchange, 404, fmt::format("path '{}' does not exist", *path));
        co_return;
    }
    if (entry && entry->kind == FileEntry::Kind::Directory) {
        co_await send_error(exchange, 400, fmt::format("path '{}' is a directory", *path));
        co_return;
    }
    auto file = co_await as_user(call, *user, *path, [&](std::string who) -> Task<Result<UniqueFd>> {
        co_return co_await call.backend.open_file(call.handle, {.path = *path, .user = std::move(who)});
    });
    if (!file) {
        co_await send_error(exchange, http::status_of(file.error()), file.error().message);
        co_return;
    }
    co_await send_file(exchange, sandboxes_.ground().pool, *std::move(file), *path,
                       entry ? entry->modified : WallTime{});
}

Task<void> Files::upload(EnvdCall& call)
{
    auto& exchange = call.exchange;
    const auto link = link_of(exchange.head());
    const auto user = co_await user_of(call, link);
    if (!user) {
        co_await send_error(exchange, 401, user.error().message);
        co_return;
    }
    if (exchange.head().media_type() == "application/octet-stream" && link.path.empty()) {
        co_await send_error(exchange, 400, "path is missing");
        co_return;
    }
    const auto metadata = metadata_of(exchange.head());
    if (!metadata) {
        co_await send_error(exchange, 400, metadata.error().message);
        co_return;
    }
    Uploads uploads(call, sandboxes_.ground());
    auto all = co_await uploads.read();
    if (!all) {
        co_await send_error(exchange, status_for(all.error()), all.error().message);
        co_return;
    }
    std::vector<std::string> paths;
    std::set<std::string> known;
    for (const auto& one : *all) {
        const auto path = resolve_path(*user, link.path.empty() ? one.name : link.path);
        const bool nameless = link.path.empty() && one.name.empty();
        if (!path || nameless) {
            co_await send_error(exchange, 400, nameless ? "a file without a name" : path.error().message);
            co_return;
        }
        if (!known.insert(*path).second) {
            co_await send_error(exchange, 400,
                                fmt::format("you cannot upload multiple files to the same path '{}'", *path));
            co_return;
        }
        paths.push_back(*path);
    }
    json::Array answer;
    for (std::size_t i = 0; i < paths.size(); ++i) {
        Result<bool> kept = false; // its metadata
        auto done = co_await put(call, *user, paths[i], std::move((*all)[i]));
        if (done) kept = co_await put_metadata(call, *user, paths[i], *metadata);
        if (!kept) done = std::unexpected(kept.error());
        if (!done) {
            const auto entry =
                co_await call.backend.stat_file(call.handle, {.path = paths[i], .user = user->name});
            const bool directory = entry && entry->kind == FileEntry::Kind::Directory;
            co_await send_error(exchange, directory ? 400 : status_for(done.error()),
                                directory ? fmt::format("path '{}' is a directory", paths[i])
                                          : done.error().message);
            co_return;
        }
        json::Object one;
        one["path"] = paths[i];
        one["name"] = paths[i].substr(paths[i].rfind('/') + 1);
        one["type"] = "file";
        if (*kept && !metadata->empty()) {
            json::Object shown;
            for (const auto& [key, value] : *metadata) shown[key] = value;
            one["metadata"] = std::move(shown);
        }
        answer.emplace_back(std::move(one));
    }
    (void)co_await exchange.send(http::json_response(200, json::dump(json::Value(std::move(answer)))));
}

} // namespace berth::e2b
