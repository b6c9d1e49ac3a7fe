#pragma once

#include <cstddef>
#include <cstdint>

/// What the keeper and those outside say to one another: one seqpacket datagram a message, host
/// byte order, every message answered exactly once with the request's number. Both sides and the
/// fuzzers use the checkers below; the files of an exec are in wire_log.hpp.
namespace berth::keeper {

inline constexpr std::uint32_t kVersion = 1;

/// A body that is longer travels as a sealed memfd, the last descriptor of the message.
inline constexpr std::size_t kMaxInlineBody = 60u << 10;
inline constexpr std::size_t kMaxBody = 3u << 20;
inline constexpr std::size_t kMaxMessage = kMaxInlineBody + 1024;
inline constexpr std::uint32_t kMaxWords = 256 * 1024;
inline constexpr std::uint32_t kMaxGroups = 8;
inline constexpr std::uint32_t kMaxHeld = 16;
inline constexpr std::uint32_t kMaxDescriptors = 24;
inline constexpr std::uint64_t kMinLogLimit = 16u << 10;
inline constexpr std::uint64_t kMaxLogLimit = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kKeepLimit = ~std::uint64_t{0}; ///< "leave this rlimit alone"

enum class Type : std::uint32_t {
    Exec = 1,
    Adopt,
    List,
    Follow,
    Signal,
    Stdin,
    Eof,
    Resize,
    Dial,
    Ping,
    Stop,
    Time, ///< how long the exec that this client asks for next may run; a keeper of before refuses it
    Ok = 100,
    Err,
    Exit, ///< an exec with `kNotify` ended; carries the number of its EXEC request
    Item, ///< part of a LIST answer: 1 to kItemsPerMessage items
    End,  ///< the last message of a LIST answer
};

/// Where a launch failed. Part of the wire: add at the end.
enum class Step : std::uint32_t {
    None,
    Request,     ///< the message itself
    Table,       ///< no free slot: too many live execs, clients or followers
    Body,        ///< the memfd with the words
    Log,         ///< writing the head of the index
    Pipe,        ///< pipes of the exec
    Terminal,    ///< opening the pty, or making it the controlling terminal
    Clone,       ///< the new process, in v2 also its birth in the group
    Session,     ///< setsid
    Descriptors, ///< standard descriptors
    Group,       ///< entering a v1 group
    Limits,      ///< rlimits
    Identity,    ///< groups, gid, uid
    Directory,   ///< chdir to the working directory
    Filter,      ///< the filter that hides clone3
    Command,     ///< execve
};

enum ExecFlags : std::uint32_t {
    kStdin = 1,       ///< a pipe for input; without it input is /dev/null
    kTerminal = 2,    ///< a pty; descriptors are index and out only
    kNotify = 4,      ///< send EXIT when it ends
    kPace = 8,        ///< let 200 us pass after a small read: fewer records, less CPU
    kBodyInMemfd = 16 ///< see kMaxInlineBody
};
inline constexpr std::uint32_t kAllExecFlags = 31;

enum class GroupKind : std::uint32_t { None, V1Tasks, V2Directory };
enum class Scope : std::uint32_t { Process, Group };
enum class State : std::uint32_t { Unknown, Starting, Running, Exited, Closed };

struct Header {
    std::uint32_t type;
    std::uint32_t length; ///< of the whole datagram
    std::uint64_t request;
};

/// Followed by the body: cwd, argv, env as NUL-ended strings.
/// Descriptors: index, out, err (not for a pty), groups, body.
struct ExecRequest {
    Header header;
    std::uint64_t exec;
    std::uint64_t log_limit; ///< bytes kept of each stream, half as head, half as tail
    std::uint32_t argc, envc;
    std::uint32_t uid, gid;
    std::uint32_t flags;
    GroupKind group_kind;
    std::uint32_t group_count;
    std::uint32_t body_length;
    std::uint16_t rows, columns;
    std::uint32_t reserved;
    std::uint64_t open_files, processes, file_size, cpu_seconds; ///< rlimits or kKeepLimit
};

/// Sent by the command itself before its execve (its pid as seen inside). Descriptors: index,
/// out, err, read ends of out and err, with kStdin the write end of input; pty: index, out, master.
/// Then `held` more, which the keeper only keeps open until the exec is closed.
struct AdoptRequest {
    Header header;
    std::uint64_t exec;
    std::uint64_t log_limit;
    std::int32_t pid;
    std::uint32_t flags;
    std::uint32_t held;
    std::uint32_t reserved;
};

/// TIME: said before the EXEC or the ADOPT of this exec, by the same client, so that nobody can be killed
/// between the two. What the keeper needs for it comes along, in the order of the flags.
enum TimeFlags : std::uint32_t {
    kPauses = 1,   ///< two: the record of the sandbox's pauses, and the file that says whether it is frozen
    kKillFile = 2, ///< one: what ends everybody in the exec's group when "1" is written to it
};
inline constexpr std::uint32_t kAllTimeFlags = 3;
inline constexpr std::uint64_t kMaxTime = std::uint64_t{1} << 62; ///< ns
struct TimeRequest {
    Header header;
    std::uint64_t exec;
    std::uint64_t time; ///< ns from its start, those in which the sandbox is paused not counted
    std::uint32_t flags;
    std::uint32_t reserved;
};

/// EXEC's other verbs: LIST, PING, STOP are a bare header; FOLLOW has one eventfd (non-blocking).
struct FollowRequest {
    Header header;
    std::uint64_t exec;
};
struct SignalRequest {
    Header header;
    std::uint64_t exec;
    std::uint32_t signal;
    Scope scope;
};
/// STDIN (followed by the bytes) and EOF. Write ids of an exec grow; the last one may be repeated
/// and is answered as before, so that a client without an answer can ask again.
struct InputRequest {
    Header header;
    std::uint64_t exec;
    std::uint64_t write;
};
struct ResizeRequest {
    Header header;
    std::uint64_t exec;
    std::uint16_t rows, columns;
    std::uint32_t reserved;
};
struct DialRequest {
    Header header;
    std::uint16_t port;
    std::uint16_t family; ///< 4 or 6: the sandbox's own 127.0.0.1 or ::1
    std::uint32_t reserved;
};

/// OK, ERR, EXIT and END.
struct Reply {
    Header header;
    std::uint32_t version;
    Step step;           ///< ERR: where
    std::int32_t error;  ///< ERR: errno; OK of DIAL: 0 or EINPROGRESS
    std::int32_t status; ///< EXIT: the raw wait status
    std::uint64_t exec;
    /// OK of EXEC: pid inside; STDIN: bytes taken; FOLLOW: State; PING: pid of the keeper.
    std::uint64_t value;
};

struct Item {
    std::uint64_t exec;
    std::uint64_t records;
    std::uint64_t bytes[2]; ///< logical size of out and err
    std::uint64_t lost;     ///< bytes that could not be stored
    std::uint64_t write;    ///< last write id of the input
    std::int32_t pid;       ///< inside
    std::int32_t status;    ///< raw wait status once Exited
    State state;
    std::uint32_t flags;
};
inline constexpr std::uint32_t kItemsPerMessage = 32;
struct ItemsReply {
    Header header;
    std::uint32_t version;
    std::uint32_t count;
    Item items[kItemsPerMessage]; ///< only `count` of them are sent
};
inline constexpr std::size_t kItemsHead = offsetof(ItemsReply, items);

// One-shot mode ("o", flags, uid, gid, cwd, command...): what init tells the launcher on fd 3.
enum class ReportKind : std::uint32_t {
    Terminal = 1, ///< with one descriptor, the master of the command's pty
    Failed,       ///< the command did not start: step and error
    Ended,        ///< raw wait status of the command; error: ENOSPC when the disk is full
    Started,      ///< the command runs; told where it was asked for
};
struct Report {
    ReportKind kind;
    Step step;
    std::int32_t error;
    std::int32_t status;
};
enum OneShotFlags : std::uint64_t {
    kOneShotTerminal = 1,
    kOneShotNewSession = 2,
    kOneShotTellStart = 4,
    kOneShotGather = 8, ///< outside a namespace of processes: it ends what the command has started itself
};
/// SIGPWR, which nobody sends to a command: whoever gathers ends everything. Else it would be passed on.
constexpr int kEndAll = 30;

/// The flags word of one-shot mode: the flags, and the window a pty starts with.
constexpr std::uint64_t one_shot_word(std::uint64_t flags, std::uint16_t rows, std::uint16_t columns)
{
    return flags | std::uint64_t{rows} << 16 | std::uint64_t{columns} << 32;
}

/// As a shell reports it: 127 not found, 126 not executable, 125 for every other failed step.
constexpr int exit_code_of_failure(Step step, std::int32_t error)
{
    if (step != Step::Command) return 125;
    return error == 2 /* ENOENT */ || error == 20 /* ENOTDIR */ ? 127 : 126;
}

static_assert(sizeof(Header) == 16 && sizeof(ExecRequest) == 104 && sizeof(AdoptRequest) == 48);
static_assert(sizeof(TimeRequest) == 40);
static_assert(sizeof(Reply) == 48 && sizeof(Item) == 64 && sizeof(Report) == 16);

} // namespace berth::keeper
