#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "base/brief.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "server/gate/spool.hpp"
#include "server/own/api.hpp"

namespace berth::own {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

Result<FilePath> path_of(const http::RequestHead& head)
{
    const auto* const path = head.parameter("path");
    if (path == nullptr || !path->starts_with('/'))
        return fail(Code::Invalid, "the parameter path must be an absolute path");
    FilePath out{.path = *path, .user = {}};
    if (const auto* const user = head.parameter("user")) out.user = *user;
    return out;
}

std::string_view kind_of(FileEntry::Kind kind)
{
    switch (kind) {
    case FileEntry::Kind::Regular: return "file";
    case FileEntry::Kind::Directory: return "directory";
    case FileEntry::Kind::Symlink: return "symlink";
    case FileEntry::Kind::Other: return "other";
    }
    return "other";
}

/// What is spooled may be needed twice.
Status from_beginning(int file)
{
    if (::lseek(file, 0, SEEK_SET) != 0) return fail_errno("reading a temporary file");
    return {};
}

json::Object entry_json(const FileEntry& entry)
{
    json::Object out;
    out["name"] = entry.name;
    out["kind"] = kind_of(entry.kind);
    out["size"] = entry.size.count;
    out["mode"] = fmt::format("{:04o}", entry.mode);
    out["uid"] = entry.uid;
    out["gid"] = entry.gid;
    out["modified"] = rfc3339(entry.modified);
    out["target"] = entry.target.empty() ? json::Value(nullptr) : json::Value(entry.target);
    return out;
}

} // namespace

Task<Answer> Api::read_file(Call& call)
{
    BERTH_CO_TRY(const auto file, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(const auto opened, co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
                     return where.open_file(Lifecycle::handle(record), file);
                 }));
    BERTH_CO_CHECK(co_await send_file(call.exchange, opened.get(), "application/octet-stream"));
    co_return http::Response{};
}

/// The receiver of an upload, from its beginning.
Task<Result<UniqueFd>> Api::spooled(Call& call)
{
    BERTH_CO_TRY(auto spool, co_await gate::Spool::open(ground_));
    for (;;) {
        BERTH_CO_TRY(auto piece, co_await call.exchange.read());
        if (piece.empty()) break;
        BERTH_CO_CHECK(co_await spool.add(std::move(piece)));
    }
    co_return co_await spool.finish();
}

/// It is made aside first: what cannot be read is an error, and not an answer that breaks off.
Task<Answer> Api::read_tree(Call& call)
{
    BERTH_CO_TRY(const auto directory, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(auto spool, co_await gate::Spool::open(ground_));
    BERTH_CO_TRY(const auto file, co_await spool.finish());
    std::uint64_t size = 0;
    const ByteSink sink = [&](std::string_view bytes) -> Status {
        size += bytes.size();
        if (size > gate::kUploadLimit.count)
            return fail(Code::Exhausted, "a tree of more than {} bytes", gate::kUploadLimit.count);
        return write_all(file.get(), bytes);
    };
    const auto read = [&](Backend& where, const SandboxRecord& record) -> Task<Status> {
        size = 0;
        BERTH_CO_CHECK(from_beginning(file.get()));
        if (::ftruncate(file.get(), 0) != 0) co_return fail_errno("emptying a temporary file");
        co_return co_await where.read_archive(Lifecycle::handle(record), directory, {}, sink);
    };
    BERTH_CO_CHECK(co_await in(call, used, read));
    BERTH_CO_CHECK(co_await send_file(call.exchange, file.get(), "application/x-tar"));
    co_return http::Response{};
}

Task<Answer> Api::write_tree(Call& call)
{
    BERTH_CO_TRY(const auto directory, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(const auto file, co_await spooled(call));
    const ByteSource source = [&]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        const auto n = ::read(file.get(), piece.data(), piece.size());
        if (n < 0) return fail_errno("reading an upload");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    };
    const auto write = [&](Backend& where, const SandboxRecord& record) -> Task<Status> {
        BERTH_CO_CHECK(from_beginning(file.get()));
        co_return co_await where.write_archive(Lifecycle::handle(record), directory, source,
                                               ArchiveLimits::whole_tree());
    };
    BERTH_CO_CHECK(co_await in(call, used, write));
    co_return http::empty_response();
}

Task<Status> Api::send_file(http::Exchange& exchange, int file, std::string_view type)
{
    struct stat st{};
    if (::fstat(file, &st) != 0) co_return fail_errno("looking at what is to be sent");
    const auto size = static_cast<std::uint64_t>(st.st_size);
    BERTH_CO_CHECK(co_await exchange.begin(200, {{"Content-Type", std::string(type)}}, size));
    std::string piece;
    for (std::uint64_t sent = 0; sent < size && exchange.head().method != "HEAD";) {
        const auto n = co_await ground_.pool.call([&]() -> ssize_t {
            piece.resize(std::min<std::uint64_t>(kPiece, size - sent));
            return ::pread(file, piece.data(), piece.size(), static_cast<off_t>(sent));
        });
        if (n <= 0) {
            exchange.drop(); // it shrank meanwhile
            co_return Status{};
        }
        piece.resize(static_cast<std::size_t>(n));
        BERTH_CO_CHECK(co_await exchange.write(piece));
        sent += static_cast<std::uint64_t>(n);
    }
    co_return co_await exchange.finish();
}

Task<Answer> Api::write_file(Call& call)
{
    BERTH_CO_TRY(const auto file, path_of(call.exchange.head()));
    std::optional<unsigned> mode;
    if (const auto* const given = call.exchange.head().parameter("mode")) {
        const auto octal =
            given->empty() || given->find_first_not_of("01234567") != std::string::npos || given->size() > 4
                ? std::nullopt
                : std::optional(std::stoul(*given, nullptr, 8));
        if (!octal || *octal > 0777) co_return fail(Code::Invalid, "mode must be octal, at most 0777");
        mode = static_cast<unsigned>(*octal);
    }
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(const auto body, co_await spooled(call));
    const auto fill = [&](Backend& where, const SandboxRecord& record) -> Task<Status> {
        BERTH_CO_CHECK(from_beginning(body.get()));
        FileContents contents{.source = UniqueFd(::fcntl(body.get(), F_DUPFD_CLOEXEC, 0)),
                              .limit = gate::kUploadLimit,
                              .mode = mode};
        if (!contents.source) co_return fail_errno("passing an upload on");
        co_return co_await where.fill_file(Lifecycle::handle(record), file, std::move(contents));
    };
    BERTH_CO_CHECK(co_await in(call, used, fill));
    co_return http::empty_response();
}

Task<Answer> Api::remove_file(Call& call)
{
    BERTH_CO_TRY(const auto file, path_of(call.exchange.head()));
    const auto* const tree = call.exchange.head().parameter("tree");
    const auto how = tree != nullptr && *tree == "true" ? RemoveTree::Yes : RemoveTree::No;
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_CHECK(co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
        return where.remove_file(Lifecycle::handle(record), file, how);
    }));
    co_return http::empty_response();
}

Task<Answer> Api::list_files(Call& call)
{
    BERTH_CO_TRY(const auto directory, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(const auto all, co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
                     return where.list_files(Lifecycle::handle(record), directory);
                 }));
    json::Array out;
    for (const auto& one : all) out.emplace_back(entry_json(one));
    json::Object document;
    document["entries"] = std::move(out);
    co_return http::json_response(200, document);
}

Task<Answer> Api::stat_file(Call& call)
{
    BERTH_CO_TRY(const auto file, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_TRY(const auto entry, co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
                     return where.stat_file(Lifecycle::handle(record), file);
                 }));
    co_return http::json_response(200, entry_json(entry));
}

Task<Answer> Api::make_dir(Call& call)
{
    BERTH_CO_TRY(const auto directory, path_of(call.exchange.head()));
    BERTH_CO_TRY(auto used, co_await usable(call));
    BERTH_CO_CHECK(co_await in(call, used, [&](Backend& where, const SandboxRecord& record) {
        return where.make_dir(Lifecycle::handle(record), directory, MakeParents::Yes);
    }));
    co_return http::empty_response();
}

} // namespace berth::own
