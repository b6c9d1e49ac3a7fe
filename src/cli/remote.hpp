#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "cli/app.hpp"
#include "http_client/client.hpp"

/// The everyday verbs against a server of berth's, over its own API: `--server URL` or BERTH_SERVER.
namespace berth::cli::remote {

/// A server, and who we are there (BERTH_API_KEY).
class Server {
public:
    [[nodiscard]] static Result<Server> open(const std::string& url);

    /// The document of a success; an error as the server tells it.
    [[nodiscard]] Result<json::Object> call(std::string method, std::string path, std::string body = {});
    /// The body as it comes, to `sink`; `patience` is how long nothing may come.
    [[nodiscard]] Status stream(std::string path, const ByteSink& sink, std::chrono::milliseconds patience);
    /// A body of ours, as `source` gives it.
    [[nodiscard]] Status upload(std::string path, ByteSource source);

    /// A connection that the server passes on from here, as a socket.
    [[nodiscard]] Result<UniqueFd> dial(const std::string& path);

    /// "/v1/sandboxes/sbx_…" of an id, the beginning of one, a name, or a key.
    [[nodiscard]] Result<std::string> path_of(const std::string& ref);

private:
    Server(http_client::Origin origin, std::string key);
    [[nodiscard]] Result<http_client::HttpAnswer> exchange(http_client::HttpRequest request,
                                                           const ByteSink& sink,
                                                           std::chrono::milliseconds patience = kPatience);
    static constexpr std::chrono::minutes kPatience{2}; // a sandbox may take its time

    std::string base_;
    std::string key_;
    std::unique_ptr<http_client::Client> client_;
};

/// Words of a command line without what names the server.
struct Words {
    std::optional<std::string> server;
    bool by_option = false; ///< and not by BERTH_SERVER
    std::vector<char*> rest;
};
[[nodiscard]] Result<Words> take_server(int argc, char** argv);

/// Whether the app of this name ("berth ls") is of a verb that works at a server.
[[nodiscard]] bool works_there(std::string_view app);
/// Runs a verb there. Nothing: it is one that is always about this machine.
[[nodiscard]] std::optional<int> run(const Words& words);

// One for each verb; `argv` starts with the verb.
int create_verb(Server& server, int argc, char** argv);
int ls_verb(Server& server, int argc, char** argv);
int inspect_verb(Server& server, int argc, char** argv);
int start_verb(Server& server, int argc, char** argv);
int stop_verb(Server& server, int argc, char** argv);
int pause_verb(Server& server, int argc, char** argv);
int resume_verb(Server& server, int argc, char** argv);
int rm_verb(Server& server, int argc, char** argv);
int snapshot_verb(Server& server, int argc, char** argv);
int fork_verb(Server& server, int argc, char** argv);
int snapshots_verb(Server& server, int argc, char** argv);
int restore_verb(Server& server, int argc, char** argv);
int events_verb(Server& server, int argc, char** argv);
int shell_verb(Server& server, int argc, char** argv);
int kill_verb(Server& server, int argc, char** argv);
int input_verb(Server& server, int argc, char** argv);
int port_verb(Server& server, int argc, char** argv);
int exec_verb(Server& server, int argc, char** argv);
int logs_verb(Server& server, int argc, char** argv);
int cp_verb(Server& server, int argc, char** argv);

/// Says how a sandbox was come by, in the words of the verbs here (session.hpp), as an answer tells it;
/// `sandbox` is its id.
void say_outcome(const json::Object& told, const std::string& sandbox);
void say_unless_attached(const json::Object& told, const std::string& sandbox);
/// The path of a sandbox that is made usable, as the verbs here do; said unless it ran.
[[nodiscard]] Result<std::string> use(Server& server, const std::string& ref);

/// The id of an exec by itself or the beginning of it; of none the newest.
[[nodiscard]] Result<std::string> exec_of(Server& server, const std::string& sandbox, const std::string& ref);
/// The error of a document {"error": …}; `otherwise` where it has none.
[[nodiscard]] Error told_error(const json::Object& document, Error otherwise);
[[nodiscard]] std::string text_of(const json::Object& object, std::string_view name);

/// Server-sent events out of their bytes.
class EventReader {
public:
    explicit EventReader(std::function<Status(const json::Object&)> on_event) : on_event_(std::move(on_event))
    {
    }
    [[nodiscard]] Status feed(std::string_view bytes);

private:
    std::function<Status(const json::Object&)> on_event_;
    std::string pending_;
};

/// How a command ended, as far as its events tell.
struct Followed {
    int code = 125;                     ///< as a shell has it; 125: nobody knows
    std::optional<int> signal;          ///< that killed it
    bool timed_out = false;             ///< and why
    std::optional<std::uint64_t> after; ///< the last event that was seen
    bool closed = false;                ///< it is over, and everything was seen
};
using OnEvent = std::function<Status(const json::Object& event)>;
struct FollowWish {
    std::string exec; ///< "/v1/sandboxes/sbx_…/execs/exec_…"
    std::optional<std::uint64_t> after;
    bool wait = true; ///< for what is still to come; else until nothing comes for a moment
};
/// Reads a command's events, also when the connection breaks off, until it is over.
[[nodiscard]] Result<Followed> follow(Server& server, const FollowWish& wish, const OnEvent& on_event);
/// To our own streams; with --json each event is a line.
[[nodiscard]] OnEvent pass_on(bool json);

} // namespace berth::cli::remote
