#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backend/exec_server/confines.hpp"

namespace berth::exec_server {

/// What must be there on the server's machine before a sandbox is: a directory for all of them, and our
/// program that stands beside each command. And what the server does with an intent, tried there: its word
/// alone proves nothing.
class Ground {
public:
    explicit Ground(Server& server) : server_(server) {}

    /// Made when it is first asked for.
    [[nodiscard]] Result<std::string> root();
    [[nodiscard]] Result<std::string> relay();
    /// Tells this directory for sandboxes from every other, whatever its address and path are called today.
    [[nodiscard]] Result<std::string> id();

    /// Refuses a policy with rules that did not hold when they were tried. Each kind is tried once.
    [[nodiscard]] Status prove(const policy::Policy& policy);

private:
    enum class Trial { Files, Names, Network };

    [[nodiscard]] Result<std::string> find_root();
    [[nodiscard]] Result<std::string> find_relay(const std::string& root);
    [[nodiscard]] Status tried(Trial trial);
    [[nodiscard]] Status attempt(Trial trial, const Layout& place);

    Server& server_;
    std::mutex mutex_;
    std::string root_;
    std::string relay_;
    std::string id_;
    std::map<Trial, Status> trials_; ///< those that were judged
};

} // namespace berth::exec_server
