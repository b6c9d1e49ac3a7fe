#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/step.hpp"

namespace berth::sys {

/// A place in the descriptor table of a launch.
struct Slot {
    std::int32_t index = kNone;
    [[nodiscard]] explicit operator bool() const noexcept { return index >= 0; }
};

/// Builds the list of steps of a launch. The parent half of every facility adds its steps here;
/// `say` names what the following steps do, for the error message of a launch that fails.
class StepList {
public:
    StepList();

    /// Puts a descriptor into the table: borrowed until the launch, or owned by the list.
    Slot borrow(int fd);
    Slot own(UniqueFd fd);
    /// A place that a step fills.
    Slot empty();

    /// Starts a further block, run by a child that a Clone step makes; answers its number.
    std::uint32_t begin_block();

    StepList& say(std::string_view what);

    void write_fd(Slot fd, std::string_view bytes);
    void write_file(std::string_view path, std::string_view bytes, int tolerate = 0);
    void set_namespace(Slot fd, std::uint64_t type);
    /// Waits for a network namespace that is made beside (netns_beside.hpp), and enters it.
    void enter_beside(Slot maker, Slot ready);
    void make_private();
    void mount(const char* source, std::string_view target, const char* type, std::uint64_t flags,
               std::string_view data = {}, int tolerate = 0);
    Slot fs_open(std::string_view type);
    void fs_string(Slot fs, std::string_view key, std::string_view value);
    void fs_flag(Slot fs, std::string_view key);
    Slot fs_mount(Slot fs, std::uint64_t attributes);
    Slot open_tree(std::string_view path, std::uint64_t flags = 0, int tolerate = 0);
    Slot open_tree(Slot object, std::uint64_t flags = 0, int tolerate = 0);
    void mount_attr(Slot tree, std::uint64_t set, Slot user_namespace = {}, std::uint64_t flags = 0,
                    int tolerate = 0);
    void mount_attr(std::string_view path, std::uint64_t set, std::uint64_t clear, std::uint64_t flags,
                    int tolerate = 0);
    void move_mount(Slot tree, std::string_view target);
    void move_mount(Slot tree, Slot target, int tolerate = 0);
    Slot open_beneath(Slot dir, std::string_view path, std::uint64_t flags, std::uint64_t resolve,
                      int tolerate = 0);
    /// A clone of `path` to cover `place` with; none where that is there and of the other kind, for a clone
    /// that is closed unused waits for a grace period of the kernel.
    Slot cover_tree(std::string_view path, std::string_view place, Leaf kind);
    /// Covers `place`, if it is there, by the one of the two that fits. It may have become another kind of
    /// thing since they were made: then there is none, and that is a failure.
    void cover(std::string_view place, Slot directory, Slot file);
    /// Creates `path` below `dir` (the working directory when empty), no symlink followed.
    Slot make_dirs_beneath(Slot dir, std::string_view path, unsigned mode, int tolerate = 0);
    Slot make_file_beneath(Slot dir, std::string_view path);
    /// The last part is of the kind that `like` is.
    Slot make_like_beneath(Slot dir, std::string_view path, Slot like, int tolerate);
    void close(Slot fd, int tolerate = 0);
    void chdir(std::string_view path);
    void chdir(Slot dir);
    void unmount(std::string_view path);
    void pivot_root();
    void hostname(std::string_view name);
    void loopback_up();
    void rlimit(int resource, std::uint64_t value);
    void soft_limit(int resource, std::uint64_t value);
    void umask(unsigned mask);
    void new_session();
    void fs_ids(std::uint32_t uid, std::uint32_t gid);
    void ids(std::uint32_t uid, std::uint32_t gid, bool clear_groups);
    /// `keep_ambient`: what a program has that another user than root executes.
    void drop_caps(std::uint64_t keep_bounding, std::uint64_t keep_permitted, std::uint64_t keep_ambient = 0);
    void death_signal(int signo, Slot parent_pidfd);
    void no_new_privs();
    Slot landlock_create(std::uint64_t fs, std::uint64_t net, std::uint64_t scopes);
    void landlock_path(Slot ruleset, std::string_view path, std::uint64_t access, int tolerate = 0);
    void landlock_apply(Slot ruleset);
    void seccomp(std::string_view program);
    /// The same for a filter that asks somebody. Once he has heard a call, only a deadly signal ends the
    /// wait.
    Slot seccomp_listener(std::string_view program);
    void mkdir(std::string_view path, unsigned mode, int tolerate = 0);
    void mkdir_owned(std::string_view path, unsigned mode, std::uint64_t uid, std::uint64_t gid);
    void make_file(std::string_view path, std::string_view bytes, unsigned mode, std::uint64_t uid,
                   std::uint64_t gid);
    void symlink(std::string_view to, std::string_view at);
    void make_node(std::string_view path, unsigned mode, std::uint64_t device);
    void check_writable(std::string_view path);
    void dup(Slot fd, int number);
    void close_on_exec_from(int number);
    /// Sends `bytes` with the descriptors of `fds`; at `pid_offset` stands the sender's pid, 32 bits.
    void send(Slot socket, std::string_view bytes, std::uint64_t pid_offset, const std::vector<Slot>& fds);
    void clone(std::uint64_t flags, std::uint32_t block, int exit_signal);
    void wait_child();
    void clear_signals();
    void control_terminal(Slot terminal);
    /// Sends a byte and waits for one: where a test kills us, its word comes after the deed.
    void ask(Slot socket);
    void exec(Slot program, const std::vector<std::string>& argv, const std::vector<std::string>& env);
    void exec_path(const std::vector<std::string>& candidates, const std::vector<std::string>& argv,
                   const std::vector<std::string>& env);

    // What launch() needs.
    [[nodiscard]] const std::vector<Step>& steps() const noexcept { return steps_; }
    [[nodiscard]] std::vector<Block> blocks() const;
    [[nodiscard]] const std::string& arena() const noexcept { return arena_; }
    [[nodiscard]] const std::vector<int>& slots() const noexcept { return slots_; }
    [[nodiscard]] const std::vector<std::vector<std::uint32_t>>& vectors() const noexcept { return vectors_; }
    [[nodiscard]] std::string_view label_of(std::size_t step) const;

    /// The list as text, one step a line: `berth run --explain-launch` and tests look at it.
    [[nodiscard]] std::vector<std::string> labels() const;

    /// Plain bytes and back, for a launch by another process; descriptors travel beside them.
    [[nodiscard]] std::string encode() const;
    [[nodiscard]] static Result<StepList> decode(std::string_view bytes, std::vector<UniqueFd> fds);
    /// The numbers of the descriptors that must travel, in the order decode() wants them.
    [[nodiscard]] std::vector<int> travelling() const;

private:
    Step& add(Op op);
    std::uint32_t put(std::string_view text);
    std::uint32_t put_vector(const std::vector<std::string>& words);

    std::vector<Step> steps_;
    std::vector<std::uint32_t> block_starts_;
    std::string arena_;
    std::vector<int> slots_;
    std::vector<UniqueFd> owned_;
    std::vector<std::vector<std::uint32_t>> vectors_;
    std::uint32_t label_ = 0;
};

} // namespace berth::sys
