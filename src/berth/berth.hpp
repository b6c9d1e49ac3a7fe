#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "base/task.hpp"
#include "lifecycle/lifecycle.hpp"

/// libberth: sandboxes from a C++ program. Everything the command line does is written against this header
/// and those it includes; see examples/.
namespace berth {

/// Where everything is kept: BERTH_DATA, else /var/lib/berth for root, else below the user's state
/// directory.
[[nodiscard]] Result<std::string> default_data();

/// What a program comes for, which matters when the disk of the state directory is full.
enum class Room {
    Ordinary, ///< then it is refused, and told what frees some
    Reads,    ///< it gets what can be read; nothing is recorded
    Frees,    ///< it gets what was set aside for it
};

struct BerthOptions {
    std::string data; ///< the state directory; empty: default_data()
    std::size_t threads = 4;
    Room room = Room::Ordinary;
    const Clock* clock = nullptr; ///< a test's own
};

/// One program's view of its sandboxes. Several programs may have the same state directory open.
class Berth {
public:
    [[nodiscard]] static Result<std::unique_ptr<Berth>> open(BerthOptions options = {});
    Berth(const Berth&) = delete;
    Berth& operator=(const Berth&) = delete;
    /// Sandboxes live on.
    ~Berth();

    [[nodiscard]] Lifecycle& lifecycle() noexcept;
    [[nodiscard]] Store& store() noexcept;
    [[nodiscard]] const std::string& data() const noexcept;
    /// Opens it when it is first asked for.
    [[nodiscard]] Result<Backend*> backend(const std::string& name);

    /// A command from its start to its end: makes the sandbox usable, runs it, records its end. An id is
    /// made where the spec has none.
    Task<Result<RunOutcome>> exec(std::string ref, ExecSpec spec, RunStreams streams = {});

    /// Carries a task out on this thread and returns its value. For programs without an event loop of
    /// their own; one task at a time.
    template <class T> T run(Task<T> task)
    {
        std::optional<T> value;
        const auto keep = [](Task<T> work, std::optional<T>& into) -> Task<void> {
            into.emplace(co_await std::move(work));
        };
        run_to_end(keep(std::move(task), value));
        return *std::move(value);
    }

private:
    struct Parts;
    explicit Berth(std::unique_ptr<Parts> parts);
    void run_to_end(Task<void> task);
    std::unique_ptr<Parts> parts_;
};

} // namespace berth
