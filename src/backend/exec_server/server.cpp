#include "backend/exec_server/server.hpp"

#include "backend/exec_server/commands.hpp"
#include "base/encoding.hpp"
#include "base/ids.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "protocol/codex/files.hpp"
#include "protocol/codex/path_uri.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;

constexpr auto kConnect = 20s;
constexpr auto kAnswer = 60s;
constexpr auto kCommand = 600s;
constexpr std::size_t kBlock = codex::FileLimits::block;
constexpr std::size_t kWholeFile = std::size_t{24} << 20; // as one message, where there are no blocks
constexpr std::size_t kMostNames = 100'000;

SteadyTime in(std::chrono::nanoseconds time) { return system_clock().steady() + time; }

json::Value sandbox_of(const Confines& confines)
{
    return confines ? json::Value(codex::write_intent(*confines)) : json::Value(nullptr);
}

Error about(Error why, const std::string& path)
{
    why.message = fmt::format("{}: {}", printable(path), why.message);
    return why;
}

/// How a command of a server ended. The protocol has no signals: 128 and more may be one.
ExitStatus status_of(int code)
{
    if (code < 0 || code > 255) return ExitStatus::unknown();
    return ExitStatus::from_wait(code << 8);
}

} // namespace

/// A connection and the commands on it. The link goes first: its thread uses the rest.
struct Server::Line {
    Commands commands;
    json::Value info;
    std::unique_ptr<Link> link;
};

Server::Server(Config config) : config_(std::move(config)) {}
Server::~Server() = default;

json::Object path_call(const std::string& path, const Confines& confines)
{
    json::Object out;
    out["path"] = codex::path_uri(path);
    out["sandbox"] = sandbox_of(confines);
    return out;
}

Result<std::shared_ptr<Server::Line>> Server::fresh_line()
{
    auto made = std::make_shared<Line>();
    auto* const self = made.get();
    BERTH_TRY(made->link, Link::open(
                              config_, {},
                              [self](const std::string& method, const json::Value& params) {
                                  self->commands.take(method, params);
                              },
                              in(kConnect)));
    made->info = made->link->info();
    if (!made->info.is_object()) {
        BERTH_TRY(made->info, made->link->call("environment/info", {}, in(kAnswer)));
    }
    return made;
}

Result<std::shared_ptr<Server::Line>> Server::line()
{
    const std::scoped_lock lock(mutex_);
    if (line_ && !line_->link->broken()) return line_;
    line_.reset();
    BERTH_TRY(line_, fresh_line());
    return line_;
}

Result<json::Value> Server::ask(std::string_view method, const json::Object& params)
{
    for (bool last = false;; last = true) {
        BERTH_TRY(const auto now, line());
        auto answer = now->link->call(method, params, in(kAnswer));
        if (answer || last || !now->link->broken()) return answer;
    }
}

Result<std::string> Server::told_path(std::string_view member)
{
    BERTH_TRY(const auto now, line());
    const json::Reader at(now->info);
    BERTH_TRY(const auto told, at.find(member));
    if (!told) return std::string{};
    BERTH_TRY(const auto uri, told->string());
    return codex::read_path(uri);
}

Result<std::string> Server::told_text(std::string_view member)
{
    BERTH_TRY(const auto now, line());
    BERTH_TRY(const auto told, json::Reader(now->info).find(member));
    if (!told) return std::string{};
    BERTH_TRY(const auto text, told->string());
    return std::string(text);
}

Result<bool> Server::can(std::string_view capability)
{
    BERTH_TRY(const auto now, line());
    BERTH_TRY(const auto all, json::Reader(now->info).find("capabilities"));
    if (!all) return false;
    BERTH_TRY(const auto one, all->find(capability));
    if (!one) return false;
    return one->boolean();
}

Result<scripted::CommandEnd> Server::run(const scripted::Command& command, const Confines& confines,
                                         const std::string& cwd)
{
    // What is passed on may be much, and slow to be taken: it must not hold up the others.
    const bool streams = static_cast<bool>(command.out);
    std::shared_ptr<Line> now;
    if (streams) {
        BERTH_TRY(now, fresh_line());
    } else {
        BERTH_TRY(now, line());
    }
    codex::StartParams start;
    start.process_id = "command-" + random_hex(12);
    start.argv = scripted::shell_words(command);
    start.cwd = cwd;
    start.env = {{"PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, {"LC_ALL", "C"}};
    start.sandbox = confines;
    const auto inbox = now->commands.open(start.process_id);
    const auto until = in(kCommand);
    scripted::CommandOutput output(command);
    std::optional<int> code;
    const auto follow = [&]() -> Status {
        BERTH_TRY([[maybe_unused]] const auto answer,
                  now->link->call("process/start", codex::write_start(start), in(kAnswer)));
        for (;;) {
            BERTH_TRY(auto event, inbox->next(std::min(until, in(1s))));
            if (!event) {
                if (const auto why = now->link->broken()) return std::unexpected(*why);
                if (system_clock().steady() < until) continue;
                return fail(Code::DeadlineExceeded, "a command of ours does not end");
            }
            using Kind = codex::ProcessEvent::Kind;
            if (event->kind == Kind::Closed) return {};
            if (event->kind == Kind::Exited)
                code = event->exit_code;
            else if (event->stream == codex::Stream::Stderr)
                output.err(event->bytes);
            else
                BERTH_CHECK(output.out(event->bytes));
        }
    };
    auto done = follow();
    now->commands.close(start.process_id);
    if (!done) {
        json::Object end;
        end["processId"] = start.process_id;
        (void)now->link->call("process/terminate", std::move(end), in(5s));
        return std::unexpected(std::move(done).error());
    }
    return std::move(output).end(status_of(code.value_or(-1)));
}

Result<std::string> Server::read_file(const std::string& path, const Confines& confines, std::size_t limit)
{
    auto answer = ask("fs/readFile", path_call(path, confines));
    if (!answer) return std::unexpected(about(std::move(answer).error(), path));
    BERTH_TRY(const auto member, json::Reader(*answer).at("dataBase64"));
    BERTH_TRY(const auto text, member.string());
    auto bytes = base64_decode(text);
    if (!bytes) return fail(Code::Invalid, "{}: the exec-server sends no base64", printable(path));
    if (bytes->size() > limit) return fail(Code::Invalid, "{} is too large", printable(path));
    return *std::move(bytes);
}

Status Server::write_text(const std::string& path, const Confines& confines, const std::string& bytes)
{
    auto call = path_call(path, confines);
    call["dataBase64"] = base64_encode(bytes);
    const auto answer = ask("fs/writeFile", call);
    if (!answer) return std::unexpected(about(answer.error(), path));
    return {};
}

Status Server::write_file(const std::string& path, const Confines& confines, const ByteSource& source)
{
    std::string kept;
    const auto more = [&](std::size_t enough) -> Result<bool> {
        while (kept.size() < enough) {
            BERTH_TRY(const auto piece, source());
            if (piece.empty()) return false;
            kept += piece;
        }
        return true;
    };
    BERTH_TRY(const bool blocks, can("fileWriteStreaming"));
    BERTH_TRY(const bool large, more(kBlock));
    if (!large) return write_text(path, confines, kept);
    if (!blocks) {
        BERTH_TRY(const bool too_large, more(kWholeFile));
        if (too_large)
            return fail(Code::Unsupported, "{}: this exec-server takes no files of more than {} MiB",
                        printable(path), kWholeFile >> 20);
        return write_text(path, confines, kept);
    }
    BERTH_TRY(const auto now, line());
    auto call = path_call(path, confines);
    const std::string handle = random_hex(12);
    call["handleId"] = handle;
    call["mode"] = "replace";
    if (auto opened = now->link->call("fs/open", std::move(call), in(kAnswer)); !opened)
        return std::unexpected(about(std::move(opened).error(), path));
    const auto fill = [&]() -> Status {
        for (std::uint64_t offset = 0; !kept.empty();) {
            const auto block = kept.substr(0, kBlock);
            json::Object write;
            write["handleId"] = handle;
            write["offset"] = offset;
            write["chunk"] = base64_encode(block);
            BERTH_TRY([[maybe_unused]] const auto answer,
                      now->link->call("fs/writeBlock", std::move(write), in(kAnswer)));
            offset += block.size();
            kept.erase(0, block.size());
            BERTH_TRY([[maybe_unused]] const bool goes_on, more(kBlock));
        }
        return {};
    };
    auto filled = fill();
    json::Object close;
    close["handleId"] = handle;
    const auto closed = now->link->call("fs/close", std::move(close), in(kAnswer));
    if (!filled) return std::unexpected(about(std::move(filled).error(), path));
    if (!closed) return std::unexpected(about(closed.error(), path));
    return {};
}

Status Server::make_directory(const std::string& path, const Confines& confines)
{
    auto call = path_call(path, confines);
    call["recursive"] = false;
    const auto answer = ask("fs/createDirectory", call);
    if (answer) return {};
    return std::unexpected(about(answer.error(), path));
}

Status Server::remove(const std::string& path, const Confines& confines)
{
    auto call = path_call(path, confines);
    call["recursive"] = true;
    call["force"] = true;
    const auto answer = ask("fs/remove", call);
    if (answer || answer.error().code == Code::NotFound) return {};
    return std::unexpected(about(answer.error(), path));
}

Result<std::vector<std::string>> Server::list(const std::string& path, const Confines& confines)
{
    auto answer = ask("fs/readDirectory", path_call(path, confines));
    if (!answer) return std::unexpected(about(std::move(answer).error(), path));
    BERTH_TRY(const auto member, json::Reader(*answer).at("entries"));
    BERTH_TRY(const auto entries, member.array());
    if (entries.size() > kMostNames) return fail(Code::Invalid, "{} has too many entries", printable(path));
    std::vector<std::string> out;
    for (const auto& entry : entries) {
        BERTH_TRY(const auto name, entry.at("fileName"));
        BERTH_TRY(out.emplace_back(), name.string());
    }
    return out;
}

Result<bool> Server::exists(const std::string& path, const Confines& confines)
{
    const auto answer = ask("fs/getMetadata", path_call(path, confines));
    if (answer) return true;
    if (answer.error().code == Code::NotFound) return false;
    return std::unexpected(about(answer.error(), path));
}

} // namespace berth::exec_server
