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
    /// Returns when `work` is on disk, or has failed and left nothing.
    [[nodiscard]] Status write(const Work& work);

private:
    struct Pending {
        const Work* work;
        Status result;
        bool done = false;
    };
    void commit(std::vector<Pending*>& batch);

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Pending*> waiting_;
    bool busy_ = false; ///< somebody commits for everybody who waited when he began
    std::optional<Connection> connection_;
    std::optional<Error> refused_;
};

} // namespace berth::store
