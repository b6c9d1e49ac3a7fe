#include "keeping/watch.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

namespace berth::keeping {

namespace {

constexpr std::size_t kMostChanges = 16'384; // of one watch, until somebody asks

} // namespace

Result<std::shared_ptr<ChangeQueue>> ChangeQueue::make()
{
    UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake) return fail_errno("making an eventfd");
    return std::shared_ptr<ChangeQueue>(new ChangeQueue(std::move(wake)));
}

void ChangeQueue::wake() const noexcept
{
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
}

void ChangeQueue::push(FileChange change)
{
    const std::scoped_lock lock(mutex_);
    if (ended_ || overflown_ || (!changes_.empty() && changes_.back() == change)) return;
    if (changes_.size() >= kMostChanges) {
        overflown_ = true;
        change = {.kind = FileChange::Kind::Overflow, .path = {}};
    }
    changes_.push_back(std::move(change));
    wake();
}

void ChangeQueue::end(Error why)
{
    const std::scoped_lock lock(mutex_);
    if (!ended_) ended_ = std::move(why);
    wake();
}

Result<std::vector<FileChange>> ChangeQueue::take()
{
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &count, sizeof count);
    const std::scoped_lock lock(mutex_);
    if (changes_.empty() && ended_) return std::unexpected(*ended_);
    std::vector<FileChange> out(std::make_move_iterator(changes_.begin()),
                                std::make_move_iterator(changes_.end()));
    changes_.clear();
    overflown_ = false;
    return out;
}

void Numbers::release(int number)
{
    const auto at = uses_.find(number);
    if (at == uses_.end() || --at->second > 0) return;
    uses_.erase(at);
    inotify_.remove(number);
}

} // namespace berth::keeping
