#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "store/sqlite/connection.hpp"

namespace berth::store {

/// Gathers the writes of several threads into one transaction: what costs is waiting for the disk, and
/// one wait serves them all. Each is done or undone by itself; none is acknowledged before the commit.
class Writer {
public:
    explicit Writer(Connection connection) : connection_(std::move(connection)) {}
    /// One that writes nothing, and says why.
    explicit Writer(Error refused) : refused_(std::move(refused)) {}

    using Work = std::function<Status(Connection&)>;
    /// How far `work` is when it returns. What is written outlives every process of ours; it is on disk with
    /// whatever is synced after it.
    enum class Until { Synced, Written };
    /// Done as far as that, or it has failed and left nothing.
    [[nodiscard]] Status write(const Work& work, Until until = Until::Synced);

private:
    struct Pending {
        const Work* work;
        Until until;
        Status result;
        bool done = false;
    };
    [[nodiscard]] std::vector<Pending*> take(Until until);
    void commit(std::vector<Pending*>& batch, Until until);
    [[nodiscard]] Status begin(Until until);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Pending*> waiting_;
    bool busy_ = false; ///< somebody commits for everybody who waited when he began
    std::optional<Connection> connection_;
    Until level_ = Until::Synced; ///< of the connection
    std::optional<Error> refused_;
};

} // namespace berth::store
