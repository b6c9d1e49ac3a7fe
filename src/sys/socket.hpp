#pragma once

#include <sys/types.h>

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

/// Unix sockets. Names are reached through a directory descriptor (/proc/…/fd/N/name), so neither
/// the length of the path to the state directory nor what somebody renames above it matters.
namespace berth::sys {

enum class SocketKind {
    SeqPacket, ///< keeps message boundaries; what berth's own processes speak
    Stream,
};

/// A name that still exists is a Conflict: the caller knows whether its owner is dead.
[[nodiscard]] Result<UniqueFd> listen_at(int directory, const std::string& name, SocketKind kind,
                                         int backlog = 64);

/// `patience` bounds the connecting and becomes the send and receive time-out: a listener whose
/// owner is gone may still be held open by somebody, and would accept into silence.
[[nodiscard]] Result<UniqueFd> connect_at(int directory, const std::string& name, SocketKind kind,
                                          std::chrono::milliseconds patience);

/// DeadlineExceeded when a time-out was set on the listener and nobody came.
[[nodiscard]] Result<UniqueFd> accept_from(int listener);

[[nodiscard]] Result<std::pair<UniqueFd, UniqueFd>> socket_pair(SocketKind kind);

/// For receive_message and accept_from; zero waits for ever.
[[nodiscard]] Status set_receive_timeout(int socket, std::chrono::milliseconds patience);

/// Who made the other end, as the kernel knows it. The pid may have ended since.
struct PeerCredentials {
    pid_t pid = 0;
    uid_t uid = 0;
    gid_t gid = 0;
};
[[nodiscard]] Result<PeerCredentials> peer_credentials(int socket);

/// SCM_MAX_FD: the kernel takes no more with one message.
inline constexpr std::size_t kMaxPassedFds = 253;

/// All bytes, the descriptors with the first of them. Never raises SIGPIPE. An empty message is
/// refused: the receiver could not tell it from the end.
[[nodiscard]] Status send_message(int socket, std::string_view bytes, std::span<const int> fds = {});

struct Message {
    std::string bytes;         ///< empty: the other end has closed
    std::vector<UniqueFd> fds; ///< close-on-exec
};

/// One message (SeqPacket) or what there is (Stream), of at most `limit` bytes and `max_fds`
/// descriptors. A message with more of either is an error, and every descriptor that came with
/// it is closed.
[[nodiscard]] Result<Message> receive_message(int socket, Bytes limit, std::size_t max_fds = 0);

} // namespace berth::sys
