#include "server/e2b/file_send.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include <boost/asio/this_coro.hpp>

#include "server/e2b/envd.hpp"
#include "server/e2b/file_headers.hpp"
#include "server/e2b/gzip.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

} // namespace

Task<void> send_file(http::Exchange& exchange, BlockingPool& pool, UniqueFd file, std::string path,
                     WallTime modified)
{
    struct stat st{};
    if (::fstat(file.get(), &st) != 0) {
        const Error error = fail_errno("looking at {}", path).error();
        co_await send_error(exchange, http::status_of(error), error.message);
        co_return;
    }
    auto plan = plan_download(exchange.head(), path, static_cast<std::uint64_t>(st.st_size), modified);
    if (plan.length == 0 || plan.status == 304 || plan.status == 416) {
        (void)co_await exchange.send({.status = plan.status, .headers = plan.headers});
        co_return;
    }
    // Only where a client takes nothing else: all of it, parts are of what is in the file.
    std::optional<Gzip> packed;
    if (!identity_acceptable(exchange.head().value("accept-encoding"))) {
        packed.emplace();
        plan.status = 200;
        plan.offset = 0;
        plan.length = static_cast<std::uint64_t>(st.st_size);
        std::erase_if(plan.headers, [](const auto& one) {
            return one.first == "Content-Range" || one.first == "Accept-Ranges";
        });
        plan.headers.emplace_back("Content-Encoding", "gzip");
    }
    const auto length = packed ? std::nullopt : std::optional(plan.length);
    if (!co_await exchange.begin(plan.status, plan.headers, length)) co_return;
    if (exchange.head().method == "HEAD") {
        (void)co_await exchange.finish();
        co_return;
    }
    std::string piece;
    for (std::uint64_t sent = 0; sent < plan.length;) {
        const auto wanted = std::min<std::uint64_t>(kPiece, plan.length - sent);
        const auto n = co_await pool.call([&]() -> ssize_t {
            piece.resize(wanted);
            return ::pread(file.get(), piece.data(), wanted, static_cast<off_t>(plan.offset + sent));
        });
        // It shrank meanwhile: the length that was promised cannot be kept.
        if (n <= 0) {
            exchange.drop();
            co_return;
        }
        piece.resize(static_cast<std::size_t>(n));
        sent += static_cast<std::uint64_t>(n);
        if (packed) {
            const auto last = sent == plan.length ? Gzip::Last::Yes : Gzip::Last::No;
            piece = co_await pool.call([&] { return packed->add(piece, last); });
        }
        if (!piece.empty() && !co_await exchange.write(piece)) co_return;
    }
    (void)co_await exchange.finish();
}

} // namespace berth::e2b
