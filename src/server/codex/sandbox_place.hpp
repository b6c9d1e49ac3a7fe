#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lifecycle/lifecycle.hpp"
#include "server/codex/place.hpp"
#include "server/codex/sandbox_intent.hpp"
#include "server/codex/traces.hpp"

namespace berth::codex {

/// What places in sandboxes work with. Borrowed, but for the traces.
struct SandboxGround {
    Lifecycle& lifecycle;
    BlockingPool& pool;
    boost::asio::any_io_executor loop;
    std::shared_ptr<Traces> traces;
};

/// A sandbox of any backend as the place of a session. Paths are the sandbox's own. An intent is held as a
/// narrower policy of each command; file operations that it has something to say about are commands, too, so
/// one decision governs both and nothing is checked before it is used.
class SandboxPlace final : public Place, public std::enable_shared_from_this<SandboxPlace> {
public:
    /// A sandbox that is there, made usable; it outlives the session.
    static Task<Result<std::shared_ptr<Place>>> enter(SandboxGround ground, std::string id);
    /// A new one, which ends with the session.
    static Task<Result<std::shared_ptr<Place>>> make(SandboxGround ground, AcquireRequest request);

    SandboxPlace(SandboxGround ground, Backend& backend, SandboxRecord record, std::string key);

    [[nodiscard]] BlockingPool& pool() noexcept override { return ground_.pool; }
    [[nodiscard]] json::Object info() const override { return info_; }
    Task<Outcome<Started>> start(StartParams params) override;

    // sandbox_files.cpp
    Task<Outcome<files::Metadata>> metadata(PathParams params) override;
    Task<Outcome<std::string>> canonical(PathParams params) override;
    Task<Outcome<std::string>> read(PathParams params) override;
    Task<Outcome<void>> write(WriteFileParams params) override;
    Task<Outcome<void>> make_directory(PathParams params) override;
    Task<Outcome<void>> remove(PathParams params, std::stop_token left) override;
    Task<Outcome<std::vector<files::Entry>>> list(PathParams params) override;
    Task<Outcome<void>> copy(CopyParams params, std::stop_token left) override;
    Task<Outcome<files::WalkResult>> walk(WalkParams params, std::stop_token left) override;
    Task<Outcome<OpenFile>> open(OpenParams params) override;
    [[nodiscard]] std::shared_ptr<Watcher> watcher(boost::asio::any_io_executor loop, Fire fire) override;
    Task<void> leave() override;

private:
    using Touch = Narrowed::Touch;
    struct Script;

    Task<void> look_around();
    [[nodiscard]] Around around() const { return {backend_, handle_, record_.spec, ground_.traces.get()}; }
    /// What the intent comes to here. A session's own sandbox is given the directories that it speaks of.
    Task<Result<Narrowed>> narrow(std::optional<Intent> intent, std::string cwd);
    Task<void> make_missing(const std::vector<std::string>& directories);
    Task<void> make_here(const std::string& directory);
    /// For a file operation: the rules, after the name was judged by them.
    Task<Outcome<Narrowed>> govern(std::optional<Intent> intent, std::string path, Touch touch);
    /// A small command under the rules; what it printed.
    Task<Result<std::string>> run(const Narrowed& rules, Script script);
    Task<Result<UniqueFd>> open_to_read(const Narrowed& rules, std::string path, bool follow);
    /// A descriptor of what the rules show in part cannot leave the sandbox: its bytes do, as they are asked
    /// for.
    Task<Result<OpenFile>> open_in_pieces(const Narrowed& rules, OpenParams params);
    Task<Outcome<std::string>> read_piece(OpenParams params, std::string identity, std::uint64_t offset,
                                          std::size_t length);
    Task<Status> refuse_links(std::string path);
    Task<void> release(std::vector<std::string> names);

    SandboxGround ground_;
    Backend& backend_;
    SandboxRecord record_;
    SandboxHandle handle_;
    std::string key_; ///< of a session's own sandbox; else empty
    json::Object info_;
    std::set<std::string> there_; ///< directories the client spoke of that were looked for, or made
};

/// Sessions of one sandbox.
[[nodiscard]] PlaceMaker enter_sandbox(SandboxGround ground, std::string id);
/// Each session in a new one.
[[nodiscard]] PlaceMaker make_sandboxes(SandboxGround ground, AcquireRequest request);

} // namespace berth::codex
