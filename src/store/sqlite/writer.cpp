#include "store/sqlite/writer.hpp"

namespace berth::store {

Status Writer::write(const Work& work)
{
    if (refused_) return std::unexpected(*refused_);
    Pending mine{.work = &work};
    std::unique_lock lock(mutex_);
    waiting_.push_back(&mine);
    while (!mine.done) {
        if (busy_) {
            changed_.wait(lock);
            continue;
        }
        busy_ = true;
        std::vector<Pending*> batch;
        batch.swap(waiting_);
        lock.unlock();
        commit(batch);
        lock.lock();
        busy_ = false;
        for (Pending* one : batch) one->done = true;
        changed_.notify_all();
    }
    return std::move(mine.result);
}

void Writer::commit(std::vector<Pending*>& batch)
{
    const auto fail_all = [&](const Error& error) {
        for (Pending* one : batch)
            if (one->result) one->result = std::unexpected(error);
    };
    if (auto begun = connection_->execute("BEGIN IMMEDIATE"); !begun) {
        fail_all(begun.error());
        return;
    }
    for (Pending* one : batch) {
        one->result = connection_->execute("SAVEPOINT one");
        if (one->result) one->result = (*one->work)(*connection_);
        const char* end = one->result ? "RELEASE one" : "ROLLBACK TO one; RELEASE one";
        // An error that ended the whole transaction took the savepoint with it; the commit will tell.
        if (auto ended = connection_->execute(end); !ended && one->result) one->result = std::move(ended);
    }
    auto committed = connection_->execute("COMMIT");
    if (committed) return;
    (void)connection_->execute("ROLLBACK");
    fail_all(committed.error());
}

} // namespace berth::store
