#include "backend/exec_server/position.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/unique_fd.hpp"

namespace berth::exec_server {

namespace {

constexpr const char* kPosition = "position";
constexpr const char* kSession = "session";
constexpr std::uint64_t kMagic = 0x31736f7072657865;
constexpr std::size_t kMostPartial = 1 << 20;

struct Head {
    std::uint64_t magic, seq, spent, sent, taken, partial;
};

} // namespace

Status write_position(int exec_directory, const Position& position)
{
    const Head head{.magic = kMagic,
                    .seq = position.seq,
                    .spent = position.spent,
                    .sent = position.sent,
                    .taken = position.taken,
                    .partial = position.partial.size()};
    std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
    bytes += position.partial;
    const UniqueFd file(
        ::openat(exec_directory, kPosition, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("opening the position of an exec");
    // One write: a process that is killed has written all of it or nothing.
    const ssize_t n = ::pwrite(file.get(), bytes.data(), bytes.size(), 0);
    if (n < 0) return fail_errno("writing the position of an exec");
    if (static_cast<std::size_t>(n) != bytes.size())
        return fail(Code::Exhausted, "writing the position of an exec: no space left");
    return {};
}

Result<Position> read_position(int exec_directory)
{
    BERTH_TRY(const auto bytes, read_file_at(exec_directory, kPosition, Bytes{kMostPartial + sizeof(Head)}));
    Head head{};
    if (bytes.size() < sizeof head) return fail(Code::Invalid, "the position of an exec is damaged");
    bytes.copy(reinterpret_cast<char*>(&head), sizeof head);
    if (head.magic != kMagic || head.partial > bytes.size() - sizeof head)
        return fail(Code::Invalid, "the position of an exec is damaged");
    return Position{.seq = head.seq,
                    .spent = head.spent,
                    .sent = head.sent,
                    .taken = head.taken,
                    .partial = bytes.substr(sizeof head, head.partial)};
}

Status write_session(int exec_directory, const std::string& session)
{
    return replace_file_at(exec_directory, kSession, session);
}

Result<std::string> read_session(int exec_directory) { return read_file_at(exec_directory, kSession, 4_KiB); }

} // namespace berth::exec_server
