#pragma once

#include <string>
#include <vector>

/// Where a run of the tests keeps its copies of the programs and its state directory: readable by
/// the ordinary user whom half of the tests run as, which a checkout need not be.
namespace security {

struct Options {
    bool as_root = false;
    std::string place; ///< empty: one of our own, removed at the end
};

/// Makes the place, copies the programs into it, becomes the ordinary user if asked, and runs one
/// sandbox so that the template is there. An empty answer is success, else the reason.
std::string prepare(Options& options);
/// Becomes the ordinary user if asked, and uses a place that is ready.
std::string enter(const Options& options);
void remove(const Options& options);

/// Of the tests that run now.
[[nodiscard]] bool as_root();
[[nodiscard]] const std::string& place();
[[nodiscard]] std::string state_directory();
/// The program under test: `berth`, or what BERTH_UNDER_TEST names.
[[nodiscard]] std::string program();
/// The one whose walls and facilities tests may take away.
[[nodiscard]] std::string hooks_program();

/// A directory that goes away with its owner. As root it belongs to an ordinary user, as the
/// directories that people show to a sandbox do.
class TempTree {
public:
    TempTree();
    TempTree(const TempTree&) = delete;
    TempTree& operator=(const TempTree&) = delete;
    ~TempTree();

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string at(const std::string& name) const { return path_ + "/" + name; }
    /// Makes the directories above it, too.
    void directory(const std::string& name) const;
    void file(const std::string& name, const std::string& text) const;
    [[nodiscard]] std::string read(const std::string& name) const;
    [[nodiscard]] bool exists(const std::string& name) const;

private:
    std::string path_;
};

} // namespace security
