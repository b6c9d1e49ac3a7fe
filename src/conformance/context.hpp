#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conformance/expect.hpp"
#include "conformance/place.hpp"

namespace berth::conformance {

using namespace std::chrono_literals;

/// A command from its start to its end.
struct Ran {
    std::string out;
    std::string err;
    RunOutcome outcome;
    std::vector<ExecEvent> events;
};

/// Holds when it exited with this code.
[[nodiscard]] Status exited(const Ran& ran, int code);

/// What a check works with. Its sandboxes are gone when it ends, however it ends.
class Context {
public:
    explicit Context(Place& place) : place_(place) {}
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context();

    [[nodiscard]] Place& place() noexcept { return place_; }
    [[nodiscard]] Backend& backend() noexcept { return place_.backend(); }
    [[nodiscard]] Result<std::unique_ptr<Backend>> reopen() { return place_.reopen(); }
    template <class T> T await(Task<T> task) { return place_.await(std::move(task)); }
    [[nodiscard]] static SteadyTime in(std::chrono::nanoseconds time)
    {
        return system_clock().steady() + time;
    }

    [[nodiscard]] SandboxSpec spec() const { return place_.spec(); }
    /// Makes a sandbox that ends with the check.
    [[nodiscard]] Result<SandboxHandle> create(CreateRequest request);
    [[nodiscard]] Result<SandboxHandle> own() { return create(spec()); }
    /// One that checks share: only for what leaves no trace, or traces below dir() alone.
    [[nodiscard]] Result<SandboxHandle> shared() { return place_.shared(); }
    /// A directory in the shared sandbox that no other check uses.
    [[nodiscard]] Result<std::string> dir();
    /// A path below the home of a sandbox of one's own, for its files; commands begin there.
    [[nodiscard]] Result<std::string> at_home(std::string_view name);
    /// Removes it too: an instance that was made in another way than by create().
    void remember(const SandboxHandle& sandbox);

    [[nodiscard]] static ExecSpec command(std::vector<std::string> argv);
    [[nodiscard]] static ExecSpec shell(std::string script)
    {
        return command({"/bin/sh", "-c", std::move(script)});
    }
    [[nodiscard]] Status start(const SandboxHandle& sandbox, const ExecSpec& exec);
    [[nodiscard]] Result<Ran> run(const SandboxHandle& sandbox, const ExecSpec& exec, std::string input = {});
    [[nodiscard]] Result<Ran> follow(Backend& backend, const SandboxHandle& sandbox, const ExecSpec& exec,
                                     std::string input = {});
    /// A script in the shared sandbox.
    [[nodiscard]] Result<Ran> sh(const std::string& script);
    /// The standard output of a script that must exit with 0.
    [[nodiscard]] Result<std::string> output(const SandboxHandle& sandbox, const std::string& script);
    /// Reads on from `from` until the streams' bytes hold `text`; all bytes so far.
    [[nodiscard]] Result<std::string> read_until(const SandboxHandle& sandbox, const std::string& exec,
                                                 std::string_view text, std::uint64_t& from);
    [[nodiscard]] Result<ExitStatus> ended(const SandboxHandle& sandbox, const std::string& exec);
    /// Every event of an exec from `from` to its end.
    [[nodiscard]] Result<std::vector<ExecEvent>> events(Backend& backend, const SandboxHandle& sandbox,
                                                        const std::string& exec, std::uint64_t from = 0);
    /// Asks again until the answer is yes or the time is over.
    [[nodiscard]] Status eventually(std::string_view what, const std::function<Result<bool>()>& holds);

    [[nodiscard]] Result<std::string> read(const SandboxHandle& sandbox, const std::string& path);
    [[nodiscard]] Status write(const SandboxHandle& sandbox, const std::string& path, std::string bytes,
                               std::optional<unsigned> mode = std::nullopt);

    /// Cannot be told here, and why: `return c.skip("…")`.
    [[nodiscard]] Status skip(std::string why);
    /// Refused as Unsupported where no claim tells it beforehand: `return c.not_offered("mounts")`.
    [[nodiscard]] Status not_offered(std::string what);
    [[nodiscard]] const std::string& offers_no() const noexcept { return offers_no_; }
    [[nodiscard]] const std::string& skipped() const noexcept { return skipped_; }

private:
    Place& place_;
    std::vector<SandboxHandle> made_;
    std::string skipped_;
    std::string offers_no_;
};

} // namespace berth::conformance
