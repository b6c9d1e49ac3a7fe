#pragma once

#include <memory>
#include <mutex>

#include "core/store.hpp"
#include "store/sqlite/copies.hpp"
#include "store/sqlite/journal.hpp"
#include "store/sqlite/writer.hpp"

namespace berth::store {

/// The store of one machine: a file in the state directory. May be used by several threads.
class SqliteStore final : public Store {
public:
    /// Makes it when it is not there, from the copies that lie beside it where there are any. Refused: a
    /// directory that cannot be written, a file of a newer version, something that is no store.
    [[nodiscard]] static Result<std::unique_ptr<SqliteStore>> open(const std::string& path,
                                                                   const Clock& clock = system_clock());

    /// As it is, on a disk without any room: what writes is refused as Exhausted. Others must wait meanwhile.
    [[nodiscard]] static Result<std::unique_ptr<SqliteStore>>
    open_to_read(const std::string& path, const Clock& clock = system_clock());

    const std::string& owner() const override { return owner_; }
    Result<SandboxRecord> insert(SandboxRecord record, std::vector<LedgerEvent> events) override;
    Result<SandboxRecord> update(SandboxRecord record, std::vector<LedgerEvent> events) override;
    Result<SandboxRecord> replace(SandboxRecord first, SandboxRecord second,
                                  std::vector<LedgerEvent> events) override;
    Status touch(const std::string& id, WallTime used) override;
    Result<std::optional<SandboxRecord>> find(const std::string& id) override;
    Result<std::optional<SandboxRecord>> find_key(const std::string& key) override;
    Result<std::vector<SandboxRecord>> list(const RecordQuery& query) override;

    Result<std::size_t> forget_ended(WallTime before, std::size_t limit) override;
    Result<std::size_t> count_ended(WallTime before, std::size_t limit) override;

    Status add_exec(ExecRecord exec, std::vector<LedgerEvent> events) override;
    Status end_exec(ExecRecord exec, std::vector<LedgerEvent> events) override;
    Status note_exec(const ExecRecord& exec) override;
    Result<std::vector<ExecRecord>> execs_due(WallTime by, std::size_t limit) override;
    Result<std::vector<ExecRecord>> execs(const std::string& sandbox, bool running_only) override;

    Result<std::uint64_t> append(std::vector<LedgerEvent> events) override;
    Result<std::vector<LedgerEvent>> ledger(const LedgerQuery& query) override;

    Status add_snapshot(SnapshotRecord snapshot, std::vector<LedgerEvent> events) override;
    Result<std::optional<SnapshotRecord>> find_snapshot(const std::string& id) override;
    Result<std::vector<SnapshotRecord>> snapshots(const std::string& sandbox) override;
    Status size_snapshot(const std::string& id, std::uint64_t bytes) override;
    Status remove_snapshot(const std::string& id, std::vector<LedgerEvent> events) override;

    Result<bool> lease(const std::string& name, const std::string& holder,
                       std::chrono::milliseconds duration) override;
    Status release(const std::string& name, const std::string& holder) override;

private:
    /// `writes` is a connection, or why there is none.
    template <class Writes>
    SqliteStore(const std::string& path, Writes writes, Connection reads, const Clock& clock,
                std::string owner, Copies copies)
        : writer_(std::move(writes)), journal_(path), reads_(std::move(reads)), clock_(&clock),
          owner_(std::move(owner)), copies_(std::move(copies))
    {
    }
    [[nodiscard]] Status write(const Writer::Work& work, const std::vector<LedgerEvent>& events);

    Writer writer_;
    Journal journal_;
    std::mutex reading_;
    Connection reads_;
    const Clock* clock_;
    std::string owner_;
    Copies copies_;
};

} // namespace berth::store
