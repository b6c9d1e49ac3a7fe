#include "server/e2b/file_send.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "server/e2b/envd.hpp"
#include "server/e2b/file_headers.hpp"

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
    const auto plan = plan_download(exchange.head(), path, static_cast<std::uint64_t>(st.st_size), modified);
    if (plan.length == 0 || plan.status == 304 || plan.status == 416) {
        (void)co_await exchange.send({.status = plan.status, .headers = plan.headers});
        co_return;
    }
    if (!co_await exchange.begin(plan.status, plan.headers, plan.length)) co_return;
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
        if (!co_await exchange.write(piece)) co_return;
        sent += static_cast<std::uint64_t>(n);
    }
    (void)co_await exchange.finish();
}

} // namespace berth::e2b
