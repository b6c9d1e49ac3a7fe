#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// envd's service filesystem.Filesystem. Every path is resolved by the backend, inside the sandbox. What the
/// caller's user may not do is tried as root, and what is made then is the user's.
class FilesystemService {
public:
    /// False: there is no such method.
    Task<bool> answer(EnvdCall& call, std::string_view method);

private:
    using Outcome = std::expected<std::string, connect::Failure>;
    struct Request {
        EnvdCall& call;
        FilesystemCall message;
        User user;
        std::string path;
    };

    Task<Outcome> unary(EnvdCall& call, std::string_view method);
    Task<Outcome> stat(Request& request);
    Task<Outcome> make_dir(Request& request);
    Task<Outcome> move(Request& request);
    Task<Outcome> list(Request& request);
    Task<Outcome> remove(Request& request);
    Task<Outcome> create_watcher(Request& request);
    Task<Outcome> watcher_events(Request& request);
    Task<Outcome> remove_watcher(Request& request);
    Task<void> watch(EnvdCall& call);
    Task<std::expected<Request, connect::Failure>> read(EnvdCall& call, std::string text);
    Task<std::optional<connect::Failure>> check_directory(Request& request);
    Task<Status> begin_watch(Request& request, Entry::Watcher& watcher, const std::string& id);
};

} // namespace berth::e2b
