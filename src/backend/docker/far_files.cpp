#include "backend/docker/far_files.hpp"

#include <unistd.h>

#include "backend/docker/exec_stream.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "image/tar_writer.hpp"
#include "scripted/spool.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;
using image::TarMember;

constexpr HttpLimits kSlow{.patience = 300s, .body = 4_MiB};
constexpr auto kCommandTime = 600s;
constexpr std::size_t kBlock = 512;
constexpr std::size_t kPiece = std::size_t{256} << 10;

std::string archive_target(const std::string& container, const std::string& path)
{
    return fmt::format("/containers/{}/archive?path={}", container, url_encode(path));
}

} // namespace

Status put_archive(const Engine& engine, const std::string& container, const std::string& path,
                   const std::string& archive)
{
    BERTH_TRY([[maybe_unused]] const auto put,
              engine.call({.method = "PUT",
                           .target = archive_target(container, path),
                           .headers = {{"Content-Type", "application/x-tar"}},
                           .body = archive},
                          kSlow));
    return {};
}

Result<std::string> first_file(std::string_view archive)
{
    for (std::size_t at = 0; at + kBlock <= archive.size();) {
        const auto head = archive.substr(at, kBlock);
        if (head.find_first_not_of('\0') == std::string_view::npos) break;
        std::uint64_t size = 0;
        for (const char c : head.substr(124, 11)) {
            if (c == ' ' || c == '\0') continue;
            if (c < '0' || c > '7') return fail(Code::Unavailable, "the engine's archive is damaged");
            size = size * 8 + static_cast<std::uint64_t>(c - '0');
        }
        at += kBlock;
        if (size > archive.size() - at) return fail(Code::Unavailable, "the engine's archive is cut off");
        const char type = head[156];
        if (type == '0' || type == '\0') return std::string(archive.substr(at, size));
        if (type != 'x' && type != 'g' && type != 'L') break; // a link or a directory is no file
        at += (size + kBlock - 1) / kBlock * kBlock;
    }
    return fail(Code::NotFound, "no regular file");
}

Result<std::string> read_small(const Engine& engine, const std::string& container, const std::string& path)
{
    BERTH_TRY(const auto answer,
              engine.call({.target = archive_target(container, path)}, {.patience = 60s, .body = 1_MiB}));
    return first_file(answer.body);
}

Result<bool> is_there(const Engine& engine, const std::string& container, const std::string& path)
{
    const auto answer = engine.call({.method = "HEAD", .target = archive_target(container, path)});
    if (answer) return true;
    if (answer.error().code == Code::NotFound) return false;
    return std::unexpected(answer.error());
}

Status make_directory(const Engine& engine, const std::string& container, const std::string& path,
                      const keeping::Account& user)
{
    std::string above = path;
    std::vector<std::string> missing;
    while (above.size() > 1) {
        BERTH_TRY(const bool there, is_there(engine, container, above));
        if (there) break;
        const auto slash = above.rfind('/');
        missing.insert(missing.begin(), above.substr(slash + 1));
        above.resize(slash);
    }
    if (missing.empty()) return {};
    std::string archive, name;
    for (const auto& one : missing) {
        name += (name.empty() ? "" : "/") + one;
        archive += image::tar::header({.name = name,
                                       .kind = TarMember::Kind::Directory,
                                       .mode = 0755,
                                       .uid = user.uid,
                                       .gid = user.gid});
    }
    return put_archive(engine, container, above.empty() ? "/" : above, archive + image::tar::end());
}

Result<scripted::CommandEnd> EngineHands::run(const scripted::Command& command)
{
    BERTH_TRY(const auto user, resolve_(command.user));
    BERTH_TRY(auto stream, ExecStream::start(engine_, container_,
                                             {.words = scripted::shell_words(command),
                                              .user = fmt::format("{}:{}", user.uid, user.gid),
                                              .env = {"LC_ALL=C", "HOME=" + user.home}}));
    scripted::CommandOutput output(command);
    const auto until = system_clock().steady() + kCommandTime;
    for (;;) {
        BERTH_TRY(const auto piece, stream.read(until));
        using From = ExecStream::Piece::From;
        if (piece.from == From::End) break;
        if (piece.from == From::Nobody)
            return fail(Code::DeadlineExceeded, "a command of ours in the container does not end");
        if (piece.from == From::Err)
            output.err(piece.bytes);
        else
            BERTH_CHECK(output.out(piece.bytes));
    }
    BERTH_TRY(const int code, stream.exit_code(engine_));
    return std::move(output).end(ExitStatus::from_wait(code << 8));
}

Result<std::string> EngineHands::stage(const std::string& user, const std::string&, const ByteSource& source)
{
    BERTH_TRY(const auto who, resolve_(user));
    // An archive says how long a file is before it begins.
    BERTH_TRY(const auto spool, scripted::nameless_file(spool_));
    std::uint64_t size = 0;
    for (;;) {
        BERTH_TRY(const auto piece, source());
        if (piece.empty()) break;
        size += piece.size();
        BERTH_CHECK(write_all(spool.get(), piece));
    }
    const std::string name = ".berth-" + random_hex(16);
    const std::string head =
        image::tar::header({.name = name, .mode = 0600, .uid = who.uid, .gid = who.gid, .size = size});
    const std::string tail = image::tar::padding(size) + image::tar::end();
    enum class Part { Head, File, Tail, Nothing } part = Part::Head;
    std::uint64_t at = 0;
    const ByteSource archive = [&]() -> Result<std::string> {
        if (part == Part::Head) {
            part = size > 0 ? Part::File : Part::Tail;
            return head;
        }
        if (part == Part::File) {
            std::string piece(std::min<std::uint64_t>(kPiece, size - at), '\0');
            const ssize_t n = ::pread(spool.get(), piece.data(), piece.size(), static_cast<off_t>(at));
            if (n <= 0) return fail_errno("reading what was kept aside");
            piece.resize(static_cast<std::size_t>(n));
            at += piece.size();
            if (at == size) part = Part::Tail;
            return piece;
        }
        if (part == Part::Nothing) return std::string{};
        part = Part::Nothing;
        return tail;
    };
    BERTH_TRY([[maybe_unused]] const auto put,
              engine_.call({.method = "PUT",
                            .target = archive_target(container_, "/tmp"),
                            .headers = {{"Content-Type", "application/x-tar"}},
                            .source = archive,
                            .length = head.size() + size + tail.size()},
                           kSlow));
    return "/tmp/" + name;
}

} // namespace berth::docker
