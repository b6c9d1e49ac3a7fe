// fs/* of a connection: parameters, the decision, the operation, its answer.
#include <unistd.h>

#include <algorithm>

#include "base/encoding.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"
#include "server/codex/connection.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kHandles = 128;

json::Object metadata_object(const files::Metadata& found)
{
    json::Object out;
    out["isDirectory"] = found.directory;
    out["isFile"] = found.file;
    out["isSymlink"] = found.symlink;
    out["size"] = found.size;
    out["createdAtMs"] = found.created_ms;
    out["modifiedAtMs"] = found.modified_ms;
    return out;
}

json::Object walk_object(const files::WalkResult& walked)
{
    json::Array entries;
    for (const auto& item : walked.items) {
        json::Object one;
        one["path"] = path_uri(item.path);
        one["kind"] = item.directory ? "directory" : "file";
        entries.emplace_back(std::move(one));
    }
    json::Array errors;
    for (const auto& failure : walked.failures) {
        json::Object one;
        one["path"] = path_uri(failure.path);
        one["message"] = printable_utf8(failure.message);
        errors.emplace_back(std::move(one));
    }
    json::Object out;
    out["entries"] = std::move(entries);
    out["errors"] = std::move(errors);
    out["truncated"] = walked.truncated;
    return out;
}

json::Object list_object(const std::vector<files::Entry>& entries)
{
    json::Array all;
    for (const auto& entry : entries) {
        json::Object one;
        one["fileName"] = printable_utf8(entry.name);
        one["isDirectory"] = entry.directory;
        one["isFile"] = entry.file;
        all.emplace_back(std::move(one));
    }
    json::Object out;
    out["entries"] = std::move(all);
    return out;
}

Answer empty(Outcome<void> done)
{
    if (!done) return std::unexpected(std::move(done).error());
    return json::Value(json::Object{});
}

/// The value in the words of the wire.
template <class T, class Words> Answer told(Outcome<T> done, Words words)
{
    if (!done) return std::unexpected(std::move(done).error());
    return json::Value(words(*done));
}

json::Object member(std::string_view name, std::string value)
{
    json::Object out;
    out[name] = std::move(value);
    return out;
}

json::Object block_object(std::string_view bytes, std::size_t asked)
{
    json::Object out;
    out["chunk"] = base64_encode(bytes);
    out["eof"] = bytes.size() < asked;
    return out;
}

} // namespace

Task<Answer> Connection::answer_file(const std::string& method, json::Value params)
{
    const auto self = shared_from_this();
    const auto session = session_;
    Place& place = session->place();
    if (method == "fs/writeFile") {
        auto call = read_write_file(params);
        params = nullptr; // the bytes are there twice already
        if (!call) co_return bad_file_params(call.error());
        co_return empty(co_await place.write(*std::move(call)));
    }
    if (method == "fs/copy") {
        auto call = read_copy(params);
        if (!call) co_return bad_file_params(call.error());
        co_return empty(co_await place.copy(*std::move(call), left_.get_token()));
    }
    if (method == "fs/walk") {
        auto call = read_walk(params);
        if (!call) co_return bad_file_params(call.error());
        co_return told(co_await place.walk(*std::move(call), left_.get_token()), walk_object);
    }
    constexpr std::string_view known[] = {"fs/readFile",        "fs/getMetadata", "fs/canonicalize",
                                          "fs/createDirectory", "fs/remove",      "fs/readDirectory"};
    if (std::ranges::find(known, method) == std::end(known))
        co_return refuse(-32601, fmt::format("unknown method {}", printable(method, 80)));
    auto call = read_path_params(params);
    if (!call) co_return bad_file_params(call.error());
    if (method == "fs/readFile")
        co_return told(co_await place.read(*std::move(call)),
                       [](const std::string& bytes) { return member("dataBase64", base64_encode(bytes)); });
    if (method == "fs/getMetadata")
        co_return told(co_await place.metadata(*std::move(call)), metadata_object);
    if (method == "fs/canonicalize")
        co_return told(co_await place.canonical(*std::move(call)),
                       [](const std::string& real) { return member("path", path_uri(real)); });
    if (method == "fs/createDirectory") co_return empty(co_await place.make_directory(*std::move(call)));
    if (method == "fs/remove") co_return empty(co_await place.remove(*std::move(call), left_.get_token()));
    co_return told(co_await place.list(*std::move(call)), list_object);
}

Task<Answer> Connection::open_file(OpenParams params)
{
    const auto self = shared_from_this();
    if (handles_.contains(params.handle) || opening_.contains(params.handle))
        co_return refuse(-32600, fmt::format("file handle {} is open already", printable(params.handle, 40)));
    if (handles_.size() + opening_.size() >= kHandles)
        co_return refuse(-32600, fmt::format("at most {} open files", kHandles));
    const auto number = ++opened_;
    opening_[params.handle] = number; // before it waits: what closes it may come meanwhile
    co_await begin_file_call(false);
    const ScopeExit answered([this] { end_file_call(false); });
    const auto session = session_;
    auto opened = co_await session->place().open(params);
    const auto at = opening_.find(params.handle);
    const bool wanted = at != opening_.end() && at->second == number;
    if (wanted) opening_.erase(at);
    if (!opened) co_return std::unexpected(std::move(opened).error());
    if (over_) co_return refuse(-32603, "the connection is gone");
    // One that was closed already has been open, and is no more.
    if (wanted)
        handles_[params.handle] =
            std::make_shared<Handle>(Handle{.opened = *std::move(opened), .mode = params.mode});
    json::Object out;
    out["handleId"] = params.handle;
    co_return json::Value(std::move(out));
}

Task<Answer> Connection::answer_handle(const std::string& method, json::Value params)
{
    const auto self = shared_from_this();
    if (method == "fs/open") {
        auto call = read_open(params);
        if (!call) co_return bad_file_params(call.error());
        co_return co_await open_file(*std::move(call));
    }
    if (method == "fs/close") {
        const auto handle = read_handle(params);
        if (!handle) co_return bad_file_params(handle.error());
        handles_.erase(*handle);
        opening_.erase(*handle);
        co_return json::Value(json::Object{});
    }
    const bool reading = method == "fs/readBlock";
    const auto call = reading ? read_read_block(params) : read_write_block(params);
    if (!call) co_return bad_file_params(call.error());
    const auto at = handles_.find(call->handle);
    if (at == handles_.end())
        co_return refuse(kNotFound, fmt::format("unknown file handle {}", printable(call->handle, 40)));
    const auto handle = at->second;
    if (reading != (handle->mode == OpenParams::Mode::Read))
        co_return refuse(-32600, fmt::format("file handle {} was opened to {}", printable(call->handle, 40),
                                             reading ? "be written" : "be read"));
    if (handle->opened.read_at)
        co_return told(co_await handle->opened.read_at(call->offset, call->length),
                       [&](const std::string& bytes) { return block_object(bytes, call->length); });
    const int file = handle->opened.file.get();
    auto done = co_await session_->place().pool().call([&]() -> Result<json::Object> {
        const auto offset = static_cast<off_t>(call->offset);
        if (!reading) {
            std::size_t have = 0;
            while (have < call->bytes.size()) {
                const ssize_t n = ::pwrite(file, call->bytes.data() + have, call->bytes.size() - have,
                                           offset + static_cast<off_t>(have));
                if (n < 0 && errno == EINTR) continue;
                if (n < 0) return fail_errno("writing a block");
                have += static_cast<std::size_t>(n);
            }
            return json::Object{};
        }
        std::string bytes(call->length, '\0');
        std::size_t have = 0;
        while (have < bytes.size()) {
            const ssize_t n =
                ::pread(file, bytes.data() + have, bytes.size() - have, offset + static_cast<off_t>(have));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("reading a block");
            if (n == 0) break;
            have += static_cast<std::size_t>(n);
        }
        return block_object(std::string_view(bytes).substr(0, have), call->length);
    });
    if (!done) co_return file_failed(done.error());
    co_return json::Value(*std::move(done));
}

} // namespace berth::codex
