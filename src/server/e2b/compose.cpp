// The parts are read with the caller's rights, put together aside, and only a whole file takes the
// destination's name; only then do the parts go.

#include "server/e2b/compose.hpp"

#include <unistd.h>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "server/e2b/entry_info.hpp"
#include "server/e2b/made_for.hpp"
#include "server/gate/spool.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kBodyLimit = std::size_t{1} << 20;
constexpr std::size_t kMostParts = 10'000;
constexpr std::size_t kPiece = std::size_t{256} << 10;

struct Wish {
    std::vector<std::string> parts;
    std::string destination;
    std::string user;
};

Result<Wish> read_wish(const std::string& text)
{
    BERTH_TRY(const auto document, json::parse(text, {.bytes = kBodyLimit}));
    const json::Reader reader(document);
    Wish out;
    BERTH_TRY(const auto parts, reader.at("source_paths"));
    BERTH_TRY(out.parts, parts.strings());
    if (out.parts.empty()) return parts.refuse("at least one path");
    if (out.parts.size() > kMostParts) return parts.refuse("at most {} paths", kMostParts);
    BERTH_TRY(const auto destination, reader.at("destination"));
    BERTH_TRY(out.destination, destination.string());
    if (out.destination.empty()) return destination.refuse("must not be empty");
    BERTH_TRY(const auto user, reader.find("username"));
    if (user) {
        BERTH_TRY(out.user, user->string());
    }
    return out;
}

struct Refused {
    int status = 0;
    std::string why;
};

Refused refused(const Error& error)
{
    if (error.sys.value() == ENOSPC || error.sys.value() == EDQUOT) return {507, error.message};
    return {error.code == Code::Exhausted ? 413 : http::status_of(error), error.message};
}

/// Nothing went wrong, or what. `parts` and `to` are whole paths.
Task<std::optional<Refused>> put_together(EnvdCall& call, gate::Ground& ground, const User& user,
                                          const std::vector<std::string>& parts, const std::string& to)
{
    auto spool = co_await gate::Spool::open(ground);
    if (!spool) co_return refused(spool.error());
    for (const auto& part : parts) {
        // By descriptor: what is looked at is what is read.
        const auto entry =
            co_await as_user(call, user, part, [&](std::string who) -> Task<Result<FileEntry>> {
                co_return co_await call.backend.stat_file(
                    call.handle, {.path = part, .user = std::move(who), .follow = false});
            });
        if (!entry) co_return refused(entry.error());
        if (entry->kind != FileEntry::Kind::Regular || part == to)
            co_return Refused{400, fmt::format("'{}' is no regular file, or is the destination", part)};
        const auto file = co_await as_user(call, user, part, [&](std::string who) -> Task<Result<UniqueFd>> {
            co_return co_await call.backend.open_file(call.handle, {.path = part, .user = std::move(who)});
        });
        if (!file) co_return refused(file.error());
        for (;;) {
            std::string piece(kPiece, '\0');
            const auto n =
                co_await ground.pool.call([&] { return ::read(file->get(), piece.data(), kPiece); });
            if (n < 0) co_return refused(fail_errno("reading {}", printable(part)).error());
            if (n == 0) break;
            piece.resize(static_cast<std::size_t>(n));
            const auto added = co_await spool->add(std::move(piece));
            if (!added) co_return refused(added.error());
        }
    }
    auto whole = co_await spool->finish();
    if (!whole) co_return refused(whole.error());
    const auto filled = co_await as_user(call, user, to, [&](std::string who) -> Task<Status> {
        if (::lseek(whole->get(), 0, SEEK_SET) != 0) co_return fail_errno("reading what was put together");
        FileContents all{.source = UniqueFd(::dup(whole->get())), .limit = gate::kUploadLimit};
        co_return co_await fill_file_for(call, user, std::move(who), to, std::move(all));
    });
    if (!filled) co_return refused(filled.error());
    for (const auto& part : parts) {
        const auto gone = co_await as_user(call, user, part, [&](std::string who) -> Task<Status> {
            co_return co_await call.backend.remove_file(call.handle, {.path = part, .user = std::move(who)},
                                                        RemoveTree::No);
        });
        if (!gone && gone.error().code != Code::NotFound) co_return refused(gone.error());
    }
    co_return std::nullopt;
}

} // namespace

Task<void> compose(EnvdCall& call, gate::Ground& ground)
{
    auto& exchange = call.exchange;
    const auto text = co_await exchange.body(kBodyLimit);
    if (!text) co_return co_await send_error(exchange, http::status_of(text.error()), text.error().message);
    const auto wish = read_wish(*text);
    if (!wish) co_return co_await send_error(exchange, 400, wish.error().message);
    const auto user = co_await user_of(call, wish->user);
    if (!user) co_return co_await send_error(exchange, 401, user.error().message);
    const auto to = resolve_path(*user, wish->destination);
    if (!to) co_return co_await send_error(exchange, 400, to.error().message);
    std::vector<std::string> parts;
    for (const auto& one : wish->parts) {
        auto part = resolve_path(*user, one);
        if (!part) co_return co_await send_error(exchange, 400, part.error().message);
        parts.push_back(*std::move(part));
    }
    if (auto failed = co_await put_together(call, ground, *user, parts, *to))
        co_return co_await send_error(exchange, failed->status, std::move(failed->why));
    json::Object out;
    out["path"] = *to;
    out["name"] = to->substr(to->rfind('/') + 1);
    out["type"] = "file";
    (void)co_await exchange.send(http::json_response(200, out));
}

} // namespace berth::e2b
