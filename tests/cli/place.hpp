#pragma once

#include <map>
#include <string>
#include <vector>

namespace berth::test {

/// Where one test process works: a directory of its own with a state directory in it, and a word
/// that no other process on the machine carries. Made on first use, with the template warmed up,
/// and removed when the process ends.
class Place {
public:
    static Place& here();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string state() const { return path_ + "/state"; }
    /// In the environment of every program started, and so of every process before it is inside.
    [[nodiscard]] const std::string& mark() const { return mark_; }

    /// A fresh directory below, open to everybody (sandboxes run under other ids).
    [[nodiscard]] std::string dir(const std::string& name);
    std::string file(const std::string& name, const std::string& bytes, unsigned mode = 0644);

private:
    Place();
    void warm_up();
    std::string path_;
    std::string mark_;
    int next_ = 0;
};

/// What a sandbox could leave behind. Lists of names, so that a difference tells what it is.
struct Traces {
    std::vector<std::string> processes;  ///< that carry our mark in environment or arguments
    std::vector<std::string> mounts;     ///< of this mount namespace, below our place
    std::vector<std::string> groups;     ///< control groups made by programs we started
    std::vector<std::string> files;      ///< in the state directory
    std::vector<std::string> namespaces; ///< of those processes, other than our own
    bool operator==(const Traces&) const = default;
};

[[nodiscard]] Traces traces(const std::string& state_dir = Place::here().state());
/// Processes whose arguments or environment contain the word.
[[nodiscard]] std::vector<int> processes_with(const std::string& word);
/// From now on control groups with this word in their name count as ours.
void claim_groups(const std::string& word);
[[nodiscard]] std::vector<std::string> files_below(const std::string& dir);

/// Compares with what there was before; processes get a bounded time to be gone.
void expect_same(const Traces& before, const std::string& state_dir = Place::here().state());

/// Environment that carries the mark inside the sandbox, too: "--env", "BERTH_TEST_MARK=…".
[[nodiscard]] std::vector<std::string> marked(std::vector<std::string> options = {});

/// Bytes of a file of the host.
[[nodiscard]] std::string contents(const std::string& path);

/// Skips a test that needs root, naming the command that gives it.
#define BERTH_NEEDS_ROOT()                                                                                   \
    if (!::berth::test::is_root()) GTEST_SKIP() << "needs root: sudo ./dev test -R " << "cli"

} // namespace berth::test
