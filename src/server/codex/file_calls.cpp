// fs/* of a connection: parameters, the decision, the operation, its answer.
#include <unistd.h>

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"
#include "server/codex/connection.hpp"
#include "server/codex/host_files.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kHandles = 128;

files::Follow follow_of(bool follow) { return follow ? files::Follow::Yes : files::Follow::No; }

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

Result<json::Object> nothing(Status done)
{
    if (!done) return std::unexpected(std::move(done).error());
    return json::Object{};
}

} // namespace

template <class T, class F>
Task<std::expected<T, RpcError>> Connection::on_files(std::optional<Intent> intent, std::string path, F work)
{
    auto& executor = sessions_.executor();
    co_return co_await executor.pool().call([&]() -> std::expected<T, RpcError> {
        auto bound = executor.bind_files(intent);
        if (!bound) return refuse(-32602, bound.error().line());
        auto done = executor.as_confined(*bound, path, [&]() -> Result<T> { return work(*bound); });
        if (done) return *std::move(done);
        auto failed = file_failed(done.error());
        // Looking around without an intent: what a stranger may not see is not there.
        if (!intent && bound->confined && done.error().sys.value() == EACCES)
            return refuse(kNotFound, "No such file or directory (os error 2)");
        return failed;
    });
}

Task<Answer> Connection::answer_file(const std::string& method, json::Value params)
{
    const auto self = shared_from_this();
    const auto value = [](auto done) -> Answer {
        if (!done) return std::unexpected(std::move(done).error());
        return json::Value(*std::move(done));
    };
    if (method == "fs/writeFile") {
        auto call = read_write_file(params);
        params = nullptr; // the bytes are there twice already
        if (!call) co_return bad_file_params(call.error());
        co_return value(co_await on_files<json::Object>(call->sandbox, call->path, [&](const Bound& bound) {
            return nothing(files::write(bound, call->path, call->bytes, follow_of(call->follow)));
        }));
    }
    if (method == "fs/copy") {
        const auto call = read_copy(params);
        if (!call) co_return bad_file_params(call.error());
        co_return value(co_await on_files<json::Object>(call->sandbox, call->to, [&](const Bound& bound) {
            return nothing(files::copy(bound, call->from, call->to, call->recursive));
        }));
    }
    if (method == "fs/walk") {
        const auto call = read_walk(params);
        if (!call) co_return bad_file_params(call.error());
        co_return value(co_await on_files<json::Object>(
            call->sandbox, call->path, [&](const Bound& bound) -> Result<json::Object> {
                BERTH_TRY(const auto walked, files::walk(bound, *call));
                return walk_object(walked);
            }));
    }
    using Operation = Result<json::Object> (*)(const Bound&, const PathParams&);
    Operation operation = nullptr;
    if (method == "fs/readFile")
        operation = [](const Bound& bound, const PathParams& p) -> Result<json::Object> {
            BERTH_TRY(const auto bytes, files::read(bound, p.path, follow_of(p.follow)));
            json::Object out;
            out["dataBase64"] = base64_encode(bytes);
            return out;
        };
    else if (method == "fs/getMetadata")
        operation = [](const Bound& bound, const PathParams& p) -> Result<json::Object> {
            BERTH_TRY(const auto found, files::metadata(bound, p.path, follow_of(p.follow)));
            return metadata_object(found);
        };
    else if (method == "fs/canonicalize")
        operation = [](const Bound& bound, const PathParams& p) -> Result<json::Object> {
            BERTH_TRY(const auto real, files::canonical(bound, p.path));
            json::Object out;
            out["path"] = path_uri(real);
            return out;
        };
    else if (method == "fs/createDirectory")
        operation = [](const Bound& bound, const PathParams& p) {
            return nothing(files::make_directory(bound, p.path, p.recursive, follow_of(p.follow)));
        };
    else if (method == "fs/remove")
        operation = [](const Bound& bound, const PathParams& p) {
            return nothing(files::remove(bound, p.path, p.recursive, p.force, follow_of(p.follow)));
        };
    else if (method == "fs/readDirectory")
        operation = [](const Bound& bound, const PathParams& p) -> Result<json::Object> {
            BERTH_TRY(const auto entries, files::list(bound, p.path));
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
        };
    if (operation == nullptr)
        co_return refuse(-32601, fmt::format("unknown method {}", printable(method, 80)));
    const auto call = read_path_params(params);
    if (!call) co_return bad_file_params(call.error());
    co_return value(co_await on_files<json::Object>(
        call->sandbox, call->path, [&](const Bound& bound) { return operation(bound, *call); }));
}

Task<Answer> Connection::open_file(OpenParams params)
{
    const auto self = shared_from_this();
    if (handles_.contains(params.handle) || opening_.contains(params.handle))
        co_return refuse(-32600, fmt::format("file handle {} is open already", printable(params.handle, 40)));
    if (handles_.size() + opening_.size() >= kHandles)
        co_return refuse(-32600, fmt::format("at most {} open files", kHandles));
    opening_.insert(params.handle);
    auto opened = co_await on_files<UniqueFd>(params.sandbox, params.path, [&](const Bound& bound) {
        return files::open(bound, params.path, params.mode);
    });
    opening_.erase(params.handle);
    if (!opened) co_return std::unexpected(std::move(opened).error());
    if (over_) co_return refuse(-32603, "the connection is gone");
    handles_[params.handle] =
        std::make_shared<Handle>(Handle{.file = *std::move(opened), .mode = params.mode});
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
    auto done = co_await sessions_.executor().pool().call([&]() -> Result<json::Object> {
        json::Object out;
        const auto offset = static_cast<off_t>(call->offset);
        if (!reading) {
            std::size_t have = 0;
            while (have < call->bytes.size()) {
                const ssize_t n = ::pwrite(handle->file.get(), call->bytes.data() + have,
                                           call->bytes.size() - have, offset + static_cast<off_t>(have));
                if (n < 0 && errno == EINTR) continue;
                if (n < 0) return fail_errno("writing a block");
                have += static_cast<std::size_t>(n);
            }
            return out;
        }
        std::string bytes(call->length, '\0');
        std::size_t have = 0;
        while (have < bytes.size()) {
            const ssize_t n = ::pread(handle->file.get(), bytes.data() + have, bytes.size() - have,
                                      offset + static_cast<off_t>(have));
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("reading a block");
            if (n == 0) break;
            have += static_cast<std::size_t>(n);
        }
        out["chunk"] = base64_encode(std::string_view(bytes).substr(0, have));
        out["eof"] = have < call->length;
        return out;
    });
    if (!done) co_return file_failed(done.error());
    co_return json::Value(*std::move(done));
}

} // namespace berth::codex
