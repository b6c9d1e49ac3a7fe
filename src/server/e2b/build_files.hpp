#pragma once

#include <map>
#include <string>

#include "base/bytes.hpp"
#include "base/unique_fd.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// Archives that clients upload for COPY, under the hash the client computed. That hash is only the client's
/// word, so nobody is ever given what another tenant called by the same name.
class BuildFiles {
public:
    explicit BuildFiles(gate::Ground& ground) : ground_(ground) {}

    Task<Result<bool>> present(std::string tenant, std::string hash);
    /// Lets whoever has it upload that one archive, for a while.
    [[nodiscard]] std::string ticket(const std::string& tenant, const std::string& hash);
    /// The request's body, under what its ticket names. Denied: there is no such ticket.
    Task<Status> take(http::Exchange& exchange, std::string ticket);
    Task<Result<UniqueFd>> open(std::string tenant, std::string hash);

    /// Removes what nobody has used for a day, and what was never complete.
    Task<void> sweep();

private:
    struct Ticket {
        std::string tenant;
        std::string hash;
        SteadyTime until{};
    };
    [[nodiscard]] std::string directory_of(const std::string& tenant) const;

    gate::Ground& ground_;
    std::map<std::string, Ticket, std::less<>> tickets_;
    SteadyTime swept_{};
};

} // namespace berth::e2b
