#include "server/gate/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"

namespace berth::gate {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

/// A file without a name: gone with whoever holds it.
Result<UniqueFd> nameless(const std::string& data)
{
    UniqueFd file(::open(data.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file) return file;
    if (errno != EOPNOTSUPP && errno != EISDIR) return fail_errno("making a temporary file in {}", data);
    const std::string path = fmt::format("{}/.upload-{}", data, random_hex(16));
    file.reset(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("making a temporary file in {}", data);
    ::unlink(path.c_str());
    return file;
}

} // namespace

Task<Result<Spool>> Spool::open(Ground& ground)
{
    BERTH_CO_TRY(auto file, co_await ground.pool.call([&] { return nameless(ground.berth.data()); }));
    co_return Spool(ground, std::move(file));
}

Task<Status> Spool::flush()
{
    if (pending_.empty()) co_return Status{};
    auto done = co_await ground_->pool.call([&] { return write_all(file_.get(), pending_); });
    pending_.clear();
    co_return done;
}

Task<Status> Spool::add(std::string bytes)
{
    size_ += bytes.size();
    if (size_ > kUploadLimit.count)
        co_return fail(Code::Exhausted, "an upload of more than {} bytes", kUploadLimit.count);
    pending_ += bytes;
    if (pending_.size() >= kPiece) co_return co_await flush();
    co_return Status{};
}

Task<Result<UniqueFd>> Spool::finish()
{
    BERTH_CO_CHECK(co_await flush());
    if (::lseek(file_.get(), 0, SEEK_SET) != 0) co_return fail_errno("reading an upload");
    co_return std::move(file_);
}

} // namespace berth::gate
