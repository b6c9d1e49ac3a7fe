#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"

namespace berth::bench {

inline constexpr const char* kBwrap = "bwrap";
inline constexpr const char* kNsjail = "nsjail";

/// Other sandboxes of this machine, measured in the same rounds. Each was tried once: one that is not
/// there, or does not work here, is in `skipped` with the reason.
struct Peers {
    std::vector<Case> cases;
    std::vector<Skipped> skipped;
};

/// bubblewrap with the arguments of Codex, and nsjail with the same walls; each with a new netns.
[[nodiscard]] Peers process_peers(Context& context);

/// OCI runtimes: `<runtime> run` of a bundle with limits and no netns, and `<runtime> exec` into a
/// container that stays. It ends, and its bundle goes, with this object.
class OciPeer {
public:
    /// `name` is crun or runc.
    [[nodiscard]] static Result<std::unique_ptr<OciPeer>> make(Context& context, const std::string& name);
    ~OciPeer();
    OciPeer(const OciPeer&) = delete;
    OciPeer& operator=(const OciPeer&) = delete;

    [[nodiscard]] Result<Case> run_case();
    [[nodiscard]] Result<Case> exec_case();

private:
    explicit OciPeer(OwnData bundles) : bundles_(std::move(bundles)) {}
    [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& command) const;
    [[nodiscard]] Status runtime(const std::vector<std::string>& command);

    std::string name_;
    std::string program_;
    OwnData bundles_; ///< not in trash/, which any launch of ours may sweep
    UniqueFd mount_namespace_;
    bool container_ = false;
};

/// Adds the runtime, or the reason why it is skipped.
void add_runtime(Context& context, Table& table, const std::string& name,
                 std::vector<std::unique_ptr<OciPeer>>& runtimes);

/// Why a peer is left out, with the command that brings it.
[[nodiscard]] Skipped absent(const std::string& name);

} // namespace berth::bench
