// The outside end of the keeper's socket. Assumes the keeper may be in the hands of whoever runs
// inside: an answer has a known size, belongs to a question that was asked, brings a descriptor only
// where one was asked for, and there are only so many of them.

#include "keeping/keeper_client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <system_error>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeper/wire_program.hpp"
#include "sys/socket.hpp"

namespace berth::keeping {
namespace {

using keeper::Type;

constexpr int kMaxNoise = 1024; // messages that belong to no question of ours, in one call
constexpr std::size_t kMaxItems = 4096;
constexpr std::uint64_t kMaxPid = 1 << 22; // PID_MAX_LIMIT

template <class T> T request(Type type)
{
    T r{};
    auto& header = [&]() -> keeper::Header& {
        if constexpr (std::is_same_v<T, keeper::Header>)
            return r;
        else
            return r.header;
    }();
    header.type = static_cast<std::uint32_t>(type);
    return r;
}

template <class T> std::string bytes_of(const T& value)
{
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

Result<std::string> body_of(const KeeperExec& what)
{
    std::string body;
    const auto put = [&](std::string_view word) -> Status {
        if (word.find('\0') != std::string_view::npos)
            return fail(Code::Invalid, "the command, its environment or directory has a NUL byte");
        body.append(word).push_back('\0');
        return {};
    };
    BERTH_CHECK(put(what.cwd));
    for (const auto& word : what.argv) BERTH_CHECK(put(word));
    for (const auto& word : what.env) BERTH_CHECK(put(word));
    if (body.size() > keeper::kMaxBody || what.argv.size() + what.env.size() > keeper::kMaxWords)
        return fail(Code::Invalid, "the command and its environment are too long: {} bytes in {} words",
                    body.size(), what.argv.size() + what.env.size());
    return body;
}

Result<UniqueFd> sealed_memory(std::string_view bytes)
{
    UniqueFd fd(::memfd_create("berth-words", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd) return fail_errno("making a memory file for a long command");
    BERTH_CHECK(write_all(fd.get(), bytes));
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return fail_errno("sealing a long command");
    return fd;
}

std::unexpected<Error> refused(const keeper::Reply& reply, std::string_view what)
{
    return fail_with(reply.error, "{}: the keeper answers", what);
}

} // namespace

std::string_view to_string(keeper::Step step) noexcept
{
    using keeper::Step;
    switch (step) {
    case Step::None: return "nothing";
    case Step::Request: return "reading the request";
    case Step::Table: return "finding room for another exec";
    case Step::Body: return "reading the words of the command";
    case Step::Log: return "writing the log";
    case Step::Pipe: return "making pipes";
    case Step::Terminal: return "opening a terminal";
    case Step::Clone: return "making a process";
    case Step::Session: return "making a session";
    case Step::Descriptors: return "setting the standard descriptors";
    case Step::Group: return "entering a control group";
    case Step::Limits: return "setting limits";
    case Step::Identity: return "becoming the user";
    case Step::Directory: return "entering the working directory";
    case Step::Filter: return "installing a filter";
    case Step::Command: return "executing the command";
    }
    return "an unknown step";
}

std::string Launched::reason() const
{
    return fmt::format("{}: {}", to_string(step), std::generic_category().message(error));
}

keeper::Type KeeperClient::Answer::type() const
{
    return static_cast<Type>(keeper::load<keeper::Header>(bytes.data()).type);
}

Result<KeeperClient> KeeperClient::connect(int directory, const std::string& name,
                                           std::chrono::milliseconds patience)
{
    BERTH_TRY(UniqueFd socket, sys::connect_at(directory, name, sys::SocketKind::SeqPacket, patience));
    return KeeperClient(std::move(socket), patience);
}

Status KeeperClient::send(std::string& message, std::span<const int> fds, std::string_view what)
{
    auto header = keeper::load<keeper::Header>(message.data());
    header.length = static_cast<std::uint32_t>(message.size());
    header.request = ++last_request_;
    std::memcpy(message.data(), &header, sizeof header);
    if (auto sent = sys::send_message(socket_.get(), message, fds); !sent)
        return std::unexpected(std::move(sent).error().while_doing(fmt::format("asking to {}", what)));
    return {};
}

Result<std::optional<KeeperClient::Answer>> KeeperClient::receive(Deadline end, std::string_view what)
{
    pollfd waiting{socket_.get(), POLLIN, 0};
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<long long>(left, 0, 1 << 30)));
        if (ready < 0 && errno != EINTR) return fail_errno("waiting for the keeper");
        if (ready > 0) break;
        if (left <= 0) return fail(Code::DeadlineExceeded, "the keeper did not answer in time: {}", what);
    }
    BERTH_TRY(auto message, sys::receive_message(socket_.get(), Bytes{sizeof(keeper::ItemsReply)}, 1));
    if (message.bytes.empty()) return fail(Code::Unavailable, "the keeper has gone: {}", what);
    if (!keeper::check_reply(message.bytes.data(), message.bytes.size(),
                             static_cast<std::uint32_t>(message.fds.size())))
        return fail(Code::Internal, "the keeper sent nonsense: {}", what);
    Answer answer{std::move(message.bytes), {}};
    if (!message.fds.empty()) answer.descriptor = std::move(message.fds.front());
    if (answer.type() != Type::Exit) return answer;
    const keeper::Reply exit = answer.reply();
    if (const auto ours = exits_.find(exit.exec); ours != exits_.end() && !ours->second) {
        ours->second = exit.status;
        ++told_;
    }
    return std::nullopt;
}

Result<KeeperClient::Answer> KeeperClient::receive_for(std::uint64_t request, Deadline end,
                                                       std::string_view what)
{
    for (int noise = 0; noise < kMaxNoise; ++noise) {
        BERTH_TRY(auto answer, receive(end, what));
        // An earlier question's answer may come after its time-out; it is not ours any more.
        if (answer && keeper::load<keeper::Header>(answer->bytes.data()).request == request)
            return *std::move(answer);
    }
    return fail(Code::Internal, "the keeper sends messages nobody asked for: {}", what);
}

Result<KeeperClient::Answer> KeeperClient::ask(std::string message, std::span<const int> fds,
                                               std::string_view what)
{
    const Deadline end = std::chrono::steady_clock::now() + patience_;
    BERTH_CHECK(send(message, fds, what));
    return receive_for(last_request_, end, what);
}

Result<keeper::Reply> KeeperClient::ask_simple(std::string message, std::span<const int> fds,
                                               std::string_view what)
{
    BERTH_TRY(const Answer answer, ask(std::move(message), fds, what));
    const keeper::Reply reply = answer.type() == Type::Item ? keeper::Reply{} : answer.reply();
    if (answer.type() == Type::Err) return refused(reply, what);
    if (answer.type() != Type::Ok || answer.descriptor)
        return fail(Code::Internal, "the keeper gave an answer to another question: {}", what);
    return reply;
}

Status KeeperClient::ping()
{
    BERTH_TRY(const auto reply, ask_simple(bytes_of(request<keeper::Header>(Type::Ping)), {}, "ping"));
    if (reply.version != keeper::kVersion)
        return fail(Code::Unsupported, "the keeper speaks version {}, this program {}", reply.version,
                    keeper::kVersion);
    return {};
}

Result<bool> KeeperClient::expect_time(std::uint64_t exec, const KeeperTime& time)
{
    auto r = request<keeper::TimeRequest>(Type::Time);
    r.exec = exec;
    r.time = static_cast<std::uint64_t>(time.limit.count());
    std::vector<int> fds;
    if (time.pauses >= 0) {
        r.flags |= keeper::kPauses;
        fds = {time.pauses, time.frozen};
    }
    if (time.kill >= 0) {
        r.flags |= keeper::kKillFile;
        fds.push_back(time.kill);
    }
    if (time.limit.count() <= 0 || !keeper::good_time(r))
        return fail(Code::Invalid, "exec {}: no keeper holds a time of {}", exec, show(time.limit));
    BERTH_TRY(const Answer answer, ask(bytes_of(r), fds, "hold a time"));
    if (answer.type() == Type::Ok && !answer.descriptor) return true;
    if (answer.type() != Type::Err)
        return fail(Code::Internal, "the keeper gave an answer to another question: hold a time");
    if (answer.reply().error == EBADMSG) return false;
    return refused(answer.reply(), "hold a time");
}

Result<Launched> KeeperClient::exec(const KeeperExec& what, const ExecLog& log)
{
    BERTH_TRY(const std::string body, body_of(what));
    const bool terminal = what.flags & keeper::kTerminal;
    if (what.argv.empty()) return fail(Code::Invalid, "a command needs at least one word");
    if (terminal != log.terminal())
        return fail(Code::Invalid, "the log of exec {} was made for other streams", what.id);

    auto r = request<keeper::ExecRequest>(Type::Exec);
    r.exec = what.id;
    r.log_limit = what.log_limit;
    r.argc = static_cast<std::uint32_t>(what.argv.size());
    r.envc = static_cast<std::uint32_t>(what.env.size());
    r.uid = what.uid;
    r.gid = what.gid;
    r.flags = what.flags & ~(keeper::kBodyInMemfd | keeper::kProgram | keeper::kNamed);
    r.group_kind = what.group_kind;
    // The last of the descriptors is the program, where one comes along.
    auto groups = what.groups;
    int program = -1;
    if ((what.flags & keeper::kProgram) != 0 && !groups.empty()) {
        program = groups.back();
        groups.pop_back();
    }
    r.group_count = static_cast<std::uint32_t>(groups.size());
    r.body_length = static_cast<std::uint32_t>(body.size());
    r.rows = what.rows;
    r.columns = what.columns;
    r.open_files = what.open_files;
    r.processes = what.processes;
    r.file_size = what.file_size;
    r.cpu_seconds = what.cpu_seconds;

    std::vector<int> fds{log.index(), log.out()};
    if (!terminal) fds.push_back(log.err());
    fds.insert(fds.end(), groups.begin(), groups.end());
    UniqueFd memory;
    if (body.size() > keeper::kMaxInlineBody) {
        r.flags |= keeper::kBodyInMemfd;
        BERTH_TRY(memory, sealed_memory(body));
        fds.push_back(memory.get());
    }
    std::string message = bytes_of(r);
    if (!memory) message += body;
    r.header.length = static_cast<std::uint32_t>(message.size());
    if (!keeper::good_exec(r, message.size(), static_cast<std::uint32_t>(fds.size())))
        return fail(Code::Invalid, "exec {} asks for what no keeper takes (id, log limit, groups, ids)",
                    what.id);
    r.flags |= what.flags & keeper::kNamed;
    if (program >= 0) {
        r.flags |= keeper::kProgram;
        fds.push_back(program);
    }
    std::memcpy(message.data(), &r, sizeof r);

    if (what.flags & keeper::kNotify) exits_.emplace(what.id, std::nullopt);
    auto answer = ask(std::move(message), fds, "start a command");
    if (!answer || answer->type() != Type::Ok) exits_.erase(what.id);
    if (!answer) return std::unexpected(std::move(answer).error());
    if ((answer->type() != Type::Ok && answer->type() != Type::Err) || answer->descriptor)
        return fail(Code::Internal, "the keeper gave an answer to another question: start a command");
    const keeper::Reply reply = answer->reply();
    if (answer->type() == Type::Err) {
        const keeper::Step step = reply.step == keeper::Step::None ? keeper::Step::Request : reply.step;
        return Launched{.step = step, .error = reply.error};
    }
    if (reply.exec != what.id || reply.value == 0 || reply.value > kMaxPid)
        return fail(Code::Internal, "the keeper names no process for exec {}", what.id);
    return Launched{.pid = static_cast<pid_t>(reply.value)};
}

Status KeeperClient::adopt(const KeeperAdopt& what, const ExecLog& log)
{
    auto r = request<keeper::AdoptRequest>(Type::Adopt);
    r.exec = what.id;
    r.log_limit = what.log_limit;
    r.pid = what.pid;
    r.flags = what.flags;
    std::vector<int> fds{log.index(), log.out()};
    if (!log.terminal()) fds.push_back(log.err());
    fds.insert(fds.end(), what.ends.begin(), what.ends.end());
    if (fds.size() != keeper::descriptors_of(r))
        return fail(Code::Invalid, "exec {} is to be adopted with {} descriptors", what.id, fds.size());
    if (what.flags & keeper::kNotify) exits_.emplace(what.id, std::nullopt);
    auto adopted = ask_simple(bytes_of(r), fds, "adopt a command");
    if (adopted) return {};
    exits_.erase(what.id);
    return std::unexpected(std::move(adopted).error());
}

Status KeeperClient::await_adoption(std::uint64_t exec)
{
    const Deadline end = std::chrono::steady_clock::now() + patience_;
    exits_.emplace(exec, std::nullopt);
    auto answer = receive_for(last_request_, end, "adopt a command");
    if (answer && answer->type() == Type::Ok && !answer->descriptor) return {};
    exits_.erase(exec);
    if (!answer) return std::unexpected(std::move(answer).error());
    if (answer->type() == Type::Err) return refused(answer->reply(), "adopt a command");
    return fail(Code::Internal, "the keeper gave an answer to another question: adopt a command");
}

Result<std::vector<keeper::Item>> KeeperClient::list()
{
    const Deadline end = std::chrono::steady_clock::now() + patience_;
    std::string message = bytes_of(request<keeper::Header>(Type::List));
    BERTH_CHECK(send(message, {}, "list execs"));
    std::vector<keeper::Item> items;
    while (items.size() <= kMaxItems) {
        BERTH_TRY(const Answer answer, receive_for(last_request_, end, "list execs"));
        if (answer.type() == Type::End) return items;
        if (answer.type() == Type::Err) return refused(answer.reply(), "list execs");
        if (answer.type() != Type::Item) break;
        const std::size_t count = (answer.bytes.size() - keeper::kItemsHead) / sizeof(keeper::Item);
        const std::size_t before = items.size();
        items.resize(before + count);
        std::memcpy(items.data() + before, answer.bytes.data() + keeper::kItemsHead,
                    count * sizeof(keeper::Item));
    }
    return fail(Code::Internal, "the keeper's list of execs makes no sense");
}

Result<keeper::State> KeeperClient::follow(std::uint64_t exec, int eventfd)
{
    auto r = request<keeper::FollowRequest>(Type::Follow);
    r.exec = exec;
    BERTH_TRY(const auto reply, ask_simple(bytes_of(r), {&eventfd, 1}, "follow an exec"));
    if (reply.value > static_cast<std::uint64_t>(keeper::State::Closed))
        return fail(Code::Internal, "the keeper names an unknown state of exec {}", exec);
    return static_cast<keeper::State>(reply.value);
}

Status KeeperClient::signal(std::uint64_t exec, int number, keeper::Scope scope)
{
    if (number < 0 || number > 64) return fail(Code::Invalid, "{} is not a signal", number);
    auto r = request<keeper::SignalRequest>(Type::Signal);
    r.exec = exec;
    r.signal = static_cast<std::uint32_t>(number);
    r.scope = scope;
    BERTH_CHECK(ask_simple(bytes_of(r), {}, "signal an exec"));
    return {};
}

Result<std::size_t> KeeperClient::write_stdin(std::uint64_t exec, std::uint64_t write, std::string_view bytes)
{
    auto r = request<keeper::InputRequest>(Type::Stdin);
    r.exec = exec;
    r.write = write;
    const std::string_view part = bytes.substr(0, keeper::kMaxInlineBody);
    BERTH_TRY(const auto reply, ask_simple(bytes_of(r).append(part), {}, "write to an exec"));
    if (reply.value > part.size())
        return fail(Code::Internal, "the keeper took {} of {} bytes for exec {}", reply.value, part.size(),
                    exec);
    return static_cast<std::size_t>(reply.value);
}

Status KeeperClient::close_stdin(std::uint64_t exec, std::uint64_t write)
{
    auto r = request<keeper::InputRequest>(Type::Eof);
    r.exec = exec;
    r.write = write;
    BERTH_CHECK(ask_simple(bytes_of(r), {}, "end the input of an exec"));
    return {};
}

Status KeeperClient::resize(std::uint64_t exec, std::uint16_t rows, std::uint16_t columns)
{
    auto r = request<keeper::ResizeRequest>(Type::Resize);
    r.exec = exec;
    r.rows = rows;
    r.columns = columns;
    BERTH_CHECK(ask_simple(bytes_of(r), {}, "resize a terminal"));
    return {};
}

Result<UniqueFd> KeeperClient::dial(std::uint16_t port, int ip_version)
{
    if (port == 0 || (ip_version != 4 && ip_version != 6))
        return fail(Code::Invalid, "cannot dial port {} by IPv{}", port, ip_version);
    auto r = request<keeper::DialRequest>(Type::Dial);
    r.port = port;
    r.family = static_cast<std::uint16_t>(ip_version);
    const std::string what = fmt::format("dial port {}", port);
    BERTH_TRY(Answer answer, ask(bytes_of(r), {}, what));
    if (answer.type() == Type::Err) return refused(answer.reply(), what);
    int domain = 0, type = 0;
    socklen_t size = sizeof domain;
    const int fd = answer.descriptor.get();
    // What came is a descriptor of the keeper's choice; only a TCP socket is handed on.
    const bool tcp = answer.type() == Type::Ok && answer.descriptor &&
                     ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
                     ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
                     domain == (ip_version == 4 ? AF_INET : AF_INET6) && type == SOCK_STREAM;
    if (!tcp) return fail(Code::Internal, "the keeper sent something else than a connection: {}", what);
    return std::move(answer.descriptor);
}

Status KeeperClient::stop()
{
    BERTH_CHECK(ask_simple(bytes_of(request<keeper::Header>(Type::Stop)), {}, "stop"));
    const Deadline end =
        std::chrono::steady_clock::now() + std::max(patience_, std::chrono::milliseconds(5000));
    for (int noise = 0; noise < kMaxNoise; ++noise) {
        auto answer = receive(end, "stop");
        if (answer) continue;
        if (answer.error().code == Code::Unavailable) return {};
        return std::unexpected(std::move(answer).error());
    }
    return fail(Code::Internal, "the keeper talks on after it was stopped");
}

Result<int> KeeperClient::wait_exit(std::uint64_t exec, std::chrono::milliseconds patience)
{
    const Deadline end = std::chrono::steady_clock::now() + patience;
    const auto ours = exits_.find(exec);
    if (ours == exits_.end())
        return fail(Code::NotFound, "exec {} was not started here to be waited for", exec);
    for (int noise = 0; noise <= kMaxNoise;) {
        if (ours->second) {
            const int status = *ours->second;
            exits_.erase(ours);
            return status;
        }
        const auto told = told_;
        BERTH_CHECK(receive(end, "wait for a command"));
        if (told == told_) ++noise;
    }
    return fail(Code::Internal, "the keeper sends messages nobody asked for");
}

} // namespace berth::keeping
