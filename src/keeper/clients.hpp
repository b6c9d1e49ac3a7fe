#pragma once

#include "keeper/exec.hpp"

struct pollfd;

/// Connections and the eventfds of followers. Nothing here blocks: an answer that does not fit
/// into the client's socket is dropped, the truth is in the index.
namespace berth::keeper {

inline constexpr int kMaxClients = 64;
inline constexpr int kMaxFollowers = 128;

extern int clients[kMaxClients]; ///< socket + 1, so that 0 is a free slot
extern int client_high;

/// Who may connect: uids as the keeper sees them.
void allow_peer(std::uint32_t uid);
/// From now on a peer must be outside of our pid namespace too.
void allow_only_outside();

/// Takes every waiting connection; a stranger's, or one too many, is closed. False when there is no
/// descriptor for one: it keeps waiting, and the listener stays readable.
bool accept_clients(int listener);
void drop_client(int client);

/// A checked request with its descriptors. Those that are not taken are closed with it.
struct Message {
    int client;
    char* bytes;
    std::size_t length;
    Header header;
    int fd[kMaxDescriptors];
    std::uint32_t fd_count;
    int program; ///< of an EXEC that brought one, else -1
    bool named;  ///< of an EXEC whose first word is no part of its argv

    int take(std::uint32_t i)
    {
        const int taken = fd[i];
        fd[i] = -1;
        return taken;
    }
};

/// The next message of a client: true when it is good. A bad one has been answered; on the end of
/// the connection the client is gone.
bool receive(int client, char* room, Message& message);
void close_descriptors(Message& message);

void reply_ok(const Message& m, u64 exec, u64 value);
void reply_err(const Message& m, u64 exec, Step step, long error);
/// The socket itself stays the caller's.
void reply_descriptor(const Message& m, int fd, int error);
void reply_list(const Message& m);

/// Of an exec whose request came earlier.
void tell_started(const Exec& x, Step step, long error);
void tell_exit(const Exec& x);

long add_follower(int client, u64 exec, int eventfd);
void wake_followers(u64 exec);

} // namespace berth::keeper
