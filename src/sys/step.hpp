#pragma once

#include <cstdint>

/// A launch as data. What happens between clone and exec is a flat list of steps, built with all
/// comfort beforehand and carried out by a small interpreter that makes only raw system calls.
/// The list can be printed, sent to another process, cut short by a test, and a failure is simply
/// (index of the step, errno).
namespace berth::sys {

enum class Op : std::uint32_t {
    WriteFd,        ///< fd, bytes
    WriteFile,      ///< text[0] path, bytes in text[1]
    SetNamespace,   ///< fd, a: type flags
    EnterBeside,    ///< fd: pidfd of the maker of a network namespace, fd2: readable when it is made
    MakePrivate,    ///< the whole mount tree, recursively
    Mount,          ///< text: source, target, type, data; a: flags
    FsOpen,         ///< text[0] type -> out
    FsString,       ///< fd, text[0] key, text[1] value
    FsFlag,         ///< fd, text[0] key
    FsMount,        ///< fd -> out; a: mount attributes
    OpenTree,       ///< fd or cwd, text[0] path, a: flags -> out
    MountAttr,      ///< fd, a: set, b: clear, fd2: user namespace, c: flags
    MountAttrPath,  ///< text[0] path, a: set, b: clear, c: flags
    MoveMount,      ///< fd, to fd2 or text[0]
    CoverTree,      ///< text[0] path, text[1] what it is to cover, a: 1 if that is a directory -> out
    Cover,          ///< text[0] path; by fd where it is a directory, else by fd2
    OpenBeneath,    ///< fd or cwd, text[0] path, a: open flags, b: resolve flags -> out
    MakeBeneath,    ///< fd or cwd, text[0] relative path, a: mode, b: kind of the last part -> out
    Close,          ///< fd
    Chdir,          ///< text[0], or fd
    Unmount,        ///< text[0], at once out of sight
    PivotRoot,      ///< the working directory becomes the root, the old one goes
    Hostname,       ///< text[0]
    LoopbackUp,     ///<
    Rlimit,         ///< a: resource, b: value; clamped to the hard limit where it may not be raised
    Umask,          ///< a
    NewSession,     ///<
    FsIds,          ///< a: uid, b: gid; capabilities stay raised
    Ids,            ///< a: uid, b: gid, c: 1 to clear the groups
    DropCaps,       ///< a: mask kept in the bounding set, b: permitted and effective, c: through exec, too
    DeathSignal,    ///< a: signal, fd: pidfd of the parent, which must still live
    NoNewPrivs,     ///<
    LandlockCreate, ///< a: file accesses handled, b: network, c: scopes -> out
    LandlockPath,   ///< fd, text[0] path, a: accesses
    LandlockApply,  ///< fd
    Seccomp,        ///< bytes: the program -> out, if any: the listener of its notifications
    Mkdir,          ///< text[0], a: mode, b: uid, c: gid (-1: leave)
    MakeFile,       ///< text[0] path, bytes in text[1], a: mode, b: uid, c: gid (-1: leave)
    Symlink,        ///< text[0] to, text[1] at
    MakeNode,       ///< text[0], a: mode, b: device
    CheckWritable,  ///< text[0]: the mount there must not be read-only
    Dup,            ///< fd, a: number it gets, without CLOEXEC
    CloseOnExec,    ///< a: first descriptor number that must not survive exec
    Send,           ///< fd: socket, bytes, a: offset to patch with own pid or ~0, text[1]: slots, b: how many
    Clone,          ///< a: flags, b: block the child runs, c: exit signal -> out: pidfd
    WaitChild,      ///< reaps a child that a Clone step made; it must have ended well
    ClearSignals,   ///< an empty signal mask: the launcher had blocked them all
    ControlTerminal, ///< fd becomes the controlling terminal of the session
    Ask,             ///< fd: a socket; one byte goes out, one is waited for (only tests)
    Exec,            ///< fd: program; arguments: a, environment: b
    ExecPath,        ///< candidates: c, arguments: a, environment: b
};

constexpr std::int32_t kNone = -1;

/// Step::tolerate: the object is not there (ENOENT, ENOTDIR), or an earlier step found so (EBADF).
constexpr std::int32_t kMissing = -1;
constexpr std::int32_t kOutOfReach = -2; ///< missing, or where we may not go

/// What MakeBeneath makes at the end of its path.
enum class Leaf : std::uint64_t { Directory, File, SameAs /* the object in fd2 */ };

/// One step; offsets point into the arena of its program. Plain data: it is sent between processes.
struct Step {
    Op op{};
    std::uint32_t label = 0; ///< what a person is told when it fails
    std::int32_t fd = kNone; ///< slots of the descriptor table
    std::int32_t fd2 = kNone;
    std::int32_t out = kNone;
    std::int32_t tolerate = 0; ///< an errno that is no failure here, or kMissing
    std::uint32_t text[4]{};   ///< 0: null
    std::uint64_t size = 0;    ///< of the bytes at text[0] (WriteFile: text[1])
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::uint64_t c = 0;
};

/// A block is what one process does; block 0 is run by the first child.
struct Block {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

/// Everything a child touches. Filled before the clone, never allocated from afterwards.
struct StepImage {
    const Step* steps = nullptr;
    const Block* blocks = nullptr;
    const char* arena = nullptr;
    int* slots = nullptr;
    char* const* const* vectors = nullptr; ///< NULL-ended string lists: arguments, environments, candidates
    char* stack_top[3] = {};               ///< one for each depth of Clone
    std::uint64_t stack_size = 0;
    // Written by the children, read by the parent after the last of them has gone on.
    volatile std::int32_t failed_step = -1;
    volatile std::int32_t error = 0;
};

/// Runs one block in the calling process; answers 0, or 125 after writing the failure into the image.
int run_block(StepImage& image, std::uint32_t block, unsigned depth) noexcept;

} // namespace berth::sys
