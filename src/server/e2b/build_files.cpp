#include "server/e2b/build_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"

namespace berth::e2b {

namespace {

using namespace std::chrono_literals;

constexpr Bytes kLargest = 2_GiB;    // one archive
constexpr Bytes kLargestSum = 8_GiB; // all of a tenant's
constexpr std::size_t kMostTickets = 10'000;
constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr auto kTicketTime = 1h;
constexpr auto kKept = 24h;
constexpr std::string_view kUnfinished = ".new-";

Result<UniqueFd> open_directory(const std::string& path)
{
    BERTH_CHECK(make_dirs(path, 0700));
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", path);
    return directory;
}

Result<std::uint64_t> size_of_all(int directory)
{
    BERTH_TRY(const auto names, list_names(directory));
    std::uint64_t sum = 0;
    for (const auto& name : names) {
        struct stat st{};
        if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0)
            sum += static_cast<std::uint64_t>(st.st_size);
    }
    return sum;
}

void sweep_directory(const std::string& path)
{
    const auto directory = open_directory(path);
    const auto names = directory ? list_names(directory->get()) : Result<std::vector<std::string>>{};
    if (!directory || !names) return;
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(system_clock().now().time_since_epoch());
    for (const auto& name : *names) {
        struct stat st{};
        if (::fstatat(directory->get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        const auto age = now - std::chrono::seconds(st.st_mtim.tv_sec);
        if (age > (name.starts_with(kUnfinished) ? std::chrono::seconds(kTicketTime) : kKept))
            ::unlinkat(directory->get(), name.c_str(), 0);
    }
}

} // namespace

std::string BuildFiles::directory_of(const std::string& tenant) const
{
    return fmt::format("{}/e2b/files/{}", ground_.berth.data(), tenant);
}

Task<Result<UniqueFd>> BuildFiles::open(std::string tenant, std::string hash)
{
    const std::string path = directory_of(tenant);
    co_return co_await ground_.pool.call([&]() -> Result<UniqueFd> {
        BERTH_TRY(const auto directory, open_directory(path));
        UniqueFd file(::openat(directory.get(), hash.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!file) return fail_errno("opening the uploaded files {}", hash);
        ::futimens(file.get(), nullptr); // used: it is kept a while longer
        return file;
    });
}

Task<Result<bool>> BuildFiles::present(std::string tenant, std::string hash)
{
    auto file = co_await open(std::move(tenant), std::move(hash));
    if (!file && file.error().code != Code::NotFound) co_return std::unexpected(std::move(file).error());
    co_return file.has_value();
}

std::string BuildFiles::ticket(const std::string& tenant, const std::string& hash)
{
    const auto now = system_clock().steady();
    std::erase_if(tickets_, [&](const auto& one) { return now >= one.second.until; });
    if (tickets_.size() >= kMostTickets) tickets_.erase(tickets_.begin());
    auto secret = random_hex(24);
    tickets_[secret] = {.tenant = tenant, .hash = hash, .until = now + kTicketTime};
    return secret;
}

Task<Status> BuildFiles::take(http::Exchange& exchange, std::string ticket)
{
    const auto at = tickets_.find(ticket);
    if (at == tickets_.end() || system_clock().steady() >= at->second.until)
        co_return fail(Code::Denied, "the link for this upload is not valid, or no longer");
    const Ticket wanted = at->second;
    const std::string path = directory_of(wanted.tenant);
    const std::string name = std::string(kUnfinished) + random_hex(12);
    UniqueFd directory;
    UniqueFd file;
    std::uint64_t room = 0;
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(directory, open_directory(path));
        BERTH_TRY(const auto used, size_of_all(directory.get()));
        room = used >= kLargestSum.count ? 0 : std::min(kLargest.count, kLargestSum.count - used);
        file.reset(::openat(directory.get(), name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600));
        if (!file) return fail_errno("making a file for an upload");
        return {};
    }));
    bool complete = false;
    const ScopeExit cleared([&] {
        if (!complete) ::unlinkat(directory.get(), name.c_str(), 0);
    });
    std::string pending;
    for (std::uint64_t size = 0;;) {
        BERTH_CO_TRY(const auto piece, co_await exchange.read());
        size += piece.size();
        if (size > room) co_return fail(Code::Exhausted, "the files of a COPY: more than {} bytes", room);
        pending += piece;
        if (!piece.empty() && pending.size() < kPiece) continue;
        BERTH_CO_CHECK(co_await ground_.pool.call([&] { return write_all(file.get(), pending); }));
        pending.clear();
        if (piece.empty()) break;
    }
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        if (::renameat(directory.get(), name.c_str(), directory.get(), wanted.hash.c_str()) != 0)
            return fail_errno("keeping an upload");
        return {};
    }));
    complete = true;
    tickets_.erase(ticket);
    co_return Status{};
}

Task<void> BuildFiles::sweep()
{
    const auto now = system_clock().steady();
    if (now < swept_ + 10min) co_return;
    swept_ = now;
    const std::string root = ground_.berth.data() + "/e2b/files";
    co_await ground_.pool.run([&] {
        const auto directory = open_directory(root);
        const auto tenants = directory ? list_names(directory->get()) : Result<std::vector<std::string>>{};
        if (!directory || !tenants) return;
        for (const auto& tenant : *tenants) sweep_directory(fmt::format("{}/{}", root, tenant));
    });
}

} // namespace berth::e2b
