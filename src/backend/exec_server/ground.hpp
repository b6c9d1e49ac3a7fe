#pragma once

#include <mutex>
#include <set>
#include <string>

#include "backend/exec_server/confines.hpp"

namespace berth::exec_server {

/// What must be there on the server's machine before a sandbox is: a directory for all of them, and our
/// program that stands beside each command.
class Ground {
public:
    explicit Ground(Server& server) : server_(server) {}

    /// Made when it is first asked for.
    [[nodiscard]] Result<std::string> root();
    [[nodiscard]] Result<std::string> relay();
    /// Another program of ours, a descriptor here, beside it there.
    [[nodiscard]] Result<std::string> program(int image);
    /// Tells this directory for sandboxes from every other, whatever its address and path are called today.
    [[nodiscard]] Result<std::string> id();

private:
    [[nodiscard]] Result<std::string> find_root();
    [[nodiscard]] Result<std::string> place(const std::string& root, int image, std::string_view stem);

    Server& server_;
    std::mutex mutex_;
    std::string root_;
    std::string relay_;
    std::string id_;
    std::set<std::string> placed_;
};

} // namespace berth::exec_server
