// Protects a volume from whoever has not its token. Its paths are a client's, its files a sandbox's: see
// VolumeFiles.

#include "server/e2b/volume_content.hpp"

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/encoding.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/fields.hpp"
#include "server/e2b/envd.hpp"
#include "server/e2b/file_send.hpp"
#include "server/gate/spool.hpp"

namespace berth::e2b {

namespace {

using Answer = Result<http::Response>;

constexpr std::size_t kBodyLimit = std::size_t{64} << 10;
constexpr std::int64_t kHighestId = 65534;
constexpr std::int64_t kDeepest = 64;

/// Here the code is a word.
std::string_view word_for(int status)
{
    switch (status) {
    case 400: return "invalid";
    case 401: return "unauthorized";
    case 403: return "forbidden";
    case 404: return "not_found";
    case 405: return "method_not_allowed";
    case 409: return "conflict";
    case 413: return "too_large";
    case 429: return "too_many_requests";
    case 501: return "unsupported";
    case 503: return "unavailable";
    case 507: return "no_space";
    default: return "internal";
    }
}

http::Response refusal(int status, std::string_view why)
{
    json::Object out;
    out["code"] = word_for(status);
    out["message"] = printable_utf8(why);
    return http::json_response(status, out);
}

http::Response refusal(const Error& error)
{
    const bool full = error.sys.value() == ENOSPC || error.sys.value() == EDQUOT;
    const bool large = error.code == Code::Exhausted;
    return refusal(full ? 507 : large ? 413 : http::status_of(error), error.message);
}

std::string_view type_of(sys::FileKind kind)
{
    switch (kind) {
    case sys::FileKind::Regular: return "file";
    case sys::FileKind::Directory: return "directory";
    case sys::FileKind::Symlink: return "symlink";
    case sys::FileKind::Other: return "unknown";
    }
    return "unknown";
}

json::Object entry_json(const VolumeEntry& entry)
{
    json::Object out;
    out["name"] = printable_utf8(entry.path == "/" ? "/" : entry.path.substr(entry.path.rfind('/') + 1));
    out["type"] = type_of(entry.kind);
    out["path"] = printable_utf8(entry.path);
    out["size"] = entry.size;
    out["mode"] = entry.mode;
    out["uid"] = entry.uid;
    out["gid"] = entry.gid;
    out["atime"] = rfc3339(entry.accessed);
    out["mtime"] = rfc3339(entry.modified);
    out["ctime"] = rfc3339(entry.changed);
    if (entry.kind == sys::FileKind::Symlink) out["target"] = printable_utf8(entry.target);
    return out;
}

Result<std::optional<std::int64_t>> number(const http::RequestHead& head, std::string_view name,
                                           std::int64_t high)
{
    const auto* const text = head.parameter(name);
    if (text == nullptr || text->empty()) return std::optional<std::int64_t>{};
    BERTH_TRY(const auto value, parse_int(*text, 0, high, name));
    return value;
}

VolumeOwner owner_of(std::optional<std::int64_t> uid, std::optional<std::int64_t> gid,
                     std::optional<std::int64_t> mode)
{
    VolumeOwner out;
    if (uid) out.uid = static_cast<std::uint32_t>(*uid);
    if (gid) out.gid = static_cast<std::uint32_t>(*gid);
    if (mode) out.mode = static_cast<unsigned>(*mode);
    return out;
}

Result<VolumeOwner> owner_asked(const http::RequestHead& head)
{
    BERTH_TRY(const auto uid, number(head, "uid", kHighestId));
    BERTH_TRY(const auto gid, number(head, "gid", kHighestId));
    BERTH_TRY(const auto mode, number(head, "mode", 07777));
    return owner_of(uid, gid, mode);
}

bool asked(const http::RequestHead& head, std::string_view name)
{
    const auto* const text = head.parameter(name);
    return text != nullptr && (*text == "true" || *text == "1");
}

} // namespace

struct VolumeContent::Call {
    http::Exchange& exchange;
    VolumePtr volume;
    std::string path; ///< absolute in the volume, clean
    gate::Ground& ground;

    /// `work` with the volume's files, where it may block. The volume stays while they are opened.
    template <class F> auto with_files(F work) -> Task<std::invoke_result_t<F, const VolumeFiles&>>
    {
        using Outcome = std::invoke_result_t<F, const VolumeFiles&>;
        const auto pin = volume->pin;
        const std::string root = ground.berth.lifecycle().volume_directory();
        co_return co_await ground.pool.call([&]() -> Outcome {
            BERTH_TRY(auto directory, Volumes::open(root, volume->id));
            BERTH_TRY(const auto files, VolumeFiles::open(std::move(directory)));
            return work(files);
        });
    }
};

bool VolumeContent::takes(const http::RequestHead& head)
{
    return !head.segments.empty() && head.segments.front() == "volumecontent";
}

Task<void> VolumeContent::answer(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    const auto refuse = [&](int status, std::string_view why) -> Task<void> {
        (void)co_await exchange.send(refusal(status, why));
    };
    if (head.segments.size() != 3) co_return co_await refuse(404, "there is nothing here");
    const auto& what = head.segments[2];
    constexpr std::string_view scheme = "Bearer ";
    const auto bearer = head.value("authorization");
    if (!bearer.starts_with(scheme))
        co_return co_await refuse(401, "no token: send the volume's as Authorization: Bearer");
    const auto volume = volumes_.find(head.segments[1]);
    if (!volume) co_return co_await refuse(404, "the volume was not found");
    if (!equal_secret(volume->token, bearer.substr(scheme.size())))
        co_return co_await refuse(401, "this token is not the volume's");
    auto& ground = volumes_.ground();
    if (!ground.rate.take(volume->tenant, system_clock().steady())) {
        auto busy = refusal(429, "too many requests");
        (void)co_await exchange.send(std::move(busy).with("Retry-After", "1"));
        co_return;
    }
    const auto* const path = head.parameter("path");
    if (path == nullptr || path->empty()) co_return co_await refuse(400, "path is missing");
    // A "~" is a name here like any other.
    const auto clean = resolve_path(User{}, path->starts_with('/') ? *path : "/" + *path);
    if (!clean) co_return co_await refuse(400, clean.error().message);
    Call call{.exchange = exchange, .volume = volume, .path = *clean, .ground = ground};
    Answer told = fail(Code::NotFound, "there is nothing here");
    if (what == "path") {
        told = co_await about_path(call);
    } else if (what == "dir") {
        told = co_await about_directory(call);
    } else if (what == "file" && head.method == "PUT") {
        told = co_await put_file(call);
    } else if (what == "file" && (head.method == "GET" || head.method == "HEAD")) {
        const auto sent = co_await get_file(call);
        if (sent) co_return;
        told = std::unexpected(sent.error());
    } else if (what == "file") {
        told = refusal(405, "this method is not allowed here");
    }
    if (!exchange.begun()) (void)co_await exchange.send(told ? *std::move(told) : refusal(told.error()));
}

Task<Answer> VolumeContent::about_path(Call& call)
{
    const auto& method = call.exchange.head().method;
    if (method == "DELETE") {
        BERTH_CO_CHECK(
            co_await call.with_files([&](const VolumeFiles& files) { return files.remove(call.path); }));
        co_return http::empty_response();
    }
    Result<VolumeEntry> entry = fail(Code::Internal, "nothing was looked at");
    if (method == "GET" || method == "HEAD") {
        entry = co_await call.with_files([&](const VolumeFiles& files) { return files.stat(call.path); });
    } else if (method == "PATCH") {
        BERTH_CO_TRY(const auto body, co_await call.exchange.body(kBodyLimit));
        BERTH_CO_TRY(const auto document, json::parse(body));
        const json::Reader reader(document);
        BERTH_CO_TRY(const auto uid, fields::maybe_whole(reader, "uid", 0, kHighestId));
        BERTH_CO_TRY(const auto gid, fields::maybe_whole(reader, "gid", 0, kHighestId));
        BERTH_CO_TRY(const auto mode, fields::maybe_whole(reader, "mode", 0, 07777));
        const auto owner = owner_of(uid, gid, mode);
        entry = co_await call.with_files(
            [&](const VolumeFiles& files) { return files.change(call.path, owner); });
    } else {
        co_return refusal(405, "this method is not allowed here");
    }
    if (!entry) co_return std::unexpected(std::move(entry).error());
    co_return http::json_response(200, entry_json(*entry));
}

Task<Answer> VolumeContent::about_directory(Call& call)
{
    const auto& head = call.exchange.head();
    if (head.method == "POST") {
        BERTH_CO_TRY(const auto owner, owner_asked(head));
        const bool force = asked(head, "force");
        BERTH_CO_TRY(const auto made, co_await call.with_files([&](const VolumeFiles& files) {
            return files.make_dir(call.path, owner, force);
        }));
        co_return http::json_response(201, entry_json(made));
    }
    if (head.method != "GET" && head.method != "HEAD")
        co_return refusal(405, "this method is not allowed here");
    BERTH_CO_TRY(const auto depth, number(head, "depth", kDeepest));
    const auto levels = static_cast<unsigned>(std::max<std::int64_t>(depth.value_or(1), 1));
    BERTH_CO_TRY(const auto entries, co_await call.with_files([&](const VolumeFiles& files) {
        return files.list(call.path, levels);
    }));
    json::Array out;
    for (const auto& entry : entries) out.emplace_back(entry_json(entry));
    co_return http::json_response(200, json::dump(json::Value(std::move(out))));
}

/// Kept aside until it is complete: one that is cut off changes nothing.
Task<Answer> VolumeContent::put_file(Call& call)
{
    const auto& head = call.exchange.head();
    BERTH_CO_TRY(const auto owner, owner_asked(head));
    const bool force = asked(head, "force");
    BERTH_CO_TRY(auto spool, co_await gate::Spool::open(call.ground));
    for (;;) {
        BERTH_CO_TRY(auto bytes, co_await call.exchange.read());
        if (bytes.empty()) break;
        BERTH_CO_CHECK(co_await spool.add(std::move(bytes)));
    }
    BERTH_CO_TRY(const auto contents, co_await spool.finish());
    BERTH_CO_TRY(const auto written, co_await call.with_files([&](const VolumeFiles& files) {
        return files.write(call.path, contents.get(), owner, force);
    }));
    co_return http::json_response(201, entry_json(written));
}

Task<Status> VolumeContent::get_file(Call& call)
{
    WallTime modified{};
    BERTH_CO_TRY(auto file, co_await call.with_files([&](const VolumeFiles& files) -> Result<UniqueFd> {
        BERTH_TRY(auto opened, files.open_file(call.path));
        if (const auto entry = files.stat(call.path)) modified = entry->modified;
        return opened;
    }));
    co_await send_file(call.exchange, call.ground.pool, std::move(file), call.path, modified);
    co_return Status{};
}

} // namespace berth::e2b
