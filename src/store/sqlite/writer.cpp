#include "store/sqlite/writer.hpp"

namespace berth::store {

Status Writer::write(const Work& work, Until until)
{
    if (refused_) return std::unexpected(*refused_);
    Pending mine{.work = &work, .until = until};
    std::unique_lock lock(mutex_);
    waiting_.push_back(&mine);
    while (!mine.done) {
        if (busy_) {
            changed_.wait(lock);
            continue;
        }
        busy_ = true;
        auto batch = take(until);
        lock.unlock();
        commit(batch, until);
        lock.lock();
        busy_ = false;
        for (Pending* one : batch) one->done = true;
        changed_.notify_all();
    }
    return std::move(mine.result);
}

/// Those who wait for the same: who need not wait for the disk is not held up by who must.
std::vector<Writer::Pending*> Writer::take(Until until)
{
    std::vector<Pending*> out;
    for (Pending* one : waiting_)
        if (one->until == until) out.push_back(one);
    std::erase_if(waiting_, [&](const Pending* one) { return one->until == until; });
    return out;
}

Status Writer::begin(Until until)
{
    if (until != level_) {
        // In WAL mode NORMAL differs by the sync of a commit alone: nothing can be damaged, in any order.
        BERTH_CHECK(connection_->execute(until == Until::Synced ? "PRAGMA synchronous=FULL"
                                                                : "PRAGMA synchronous=NORMAL"));
        level_ = until;
    }
    return connection_->run("BEGIN IMMEDIATE");
}

void Writer::commit(std::vector<Pending*>& batch, Until until)
{
    const auto fail_all = [&](const Error& error) {
        for (Pending* one : batch)
            if (one->result) one->result = std::unexpected(error);
    };
    if (auto begun = begin(until); !begun) {
        fail_all(begun.error());
        return;
    }
    for (Pending* one : batch) {
        one->result = connection_->run("SAVEPOINT one");
        if (one->result) one->result = (*one->work)(*connection_);
        if (!one->result) (void)connection_->run("ROLLBACK TO one");
        // An error that ended the whole transaction took the savepoint with it; the commit will tell.
        if (auto ended = connection_->run("RELEASE one"); !ended && one->result)
            one->result = std::move(ended);
    }
    auto committed = connection_->run("COMMIT");
    if (committed) return;
    (void)connection_->execute("ROLLBACK");
    fail_all(committed.error());
}

} // namespace berth::store
