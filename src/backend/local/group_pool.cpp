#include "backend/local/group_pool.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.hpp"

namespace berth::local {

namespace {

policy::Holding holding(const sys::Facility& facility, std::string_view name)
{
    if (facility.available())
        return {.tier = policy::Tier::Outside,
                .how = fmt::format("control group {} ({})", name, sys::to_string(facility.version))};
    return {.tier = policy::Tier::None,
            .how = fmt::format("{}: {}", facility.lack.reason, facility.lack.remedy)};
}

/// The records nobody holds: a killed program left them, and perhaps its groups.
std::vector<std::string> dead_records(int records)
{
    std::vector<std::string> dead;
    UniqueFd again(::openat(records, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = again ? ::fdopendir(again.get()) : nullptr;
    if (stream == nullptr) return dead;
    (void)again.release();                            // the stream owns it now
    while (const dirent* entry = ::readdir(stream)) { // NOLINT(concurrency-mt-unsafe): our own stream
        if (entry->d_name[0] == '.') continue;
        const UniqueFd file(::openat(records, entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (file && ::flock(file.get(), LOCK_EX | LOCK_NB) == 0) dead.emplace_back(entry->d_name);
    }
    ::closedir(stream);
    return dead;
}

std::vector<std::string> sweep(int records, const std::vector<std::string>& dead)
{
    auto removed = sys::CgroupTree::open().sweep();
    for (const auto& name : dead) ::unlinkat(records, name.c_str(), 0);
    return removed;
}

} // namespace

GroupPool::GroupPool(const StateDir& state) : records_(state.limited())
{
    if (const auto dead = dead_records(records_); !dead.empty()) (void)sweep(records_, dead);
}

GroupPool::~GroupPool()
{
    ready_.clear(); // before the record says that there are none
    if (record_) ::unlinkat(records_, name_.c_str(), 0);
}

const sys::CgroupTree& GroupPool::tree()
{
    if (!tree_) tree_.emplace(sys::CgroupTree::open());
    return *tree_;
}

/// Before the first group exists, so that whoever finds it later knows to look. Somebody who sweeps
/// at this moment may take the file for a dead program's before it is locked: then it is made again.
Status GroupPool::record()
{
    if (record_) return {};
    name_ = random_hex(16);
    for (int tries = 0; tries < 5; ++tries) {
        record_.reset(::openat(records_, name_.c_str(), O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!record_) return fail_errno("recording our control groups");
        struct stat st{};
        if (::flock(record_.get(), LOCK_EX) == 0 && ::fstat(record_.get(), &st) == 0 && st.st_nlink > 0)
            return {};
    }
    record_.reset();
    return fail(Code::Unavailable, "the record of our control groups is removed again and again");
}

Result<sys::SandboxGroup> GroupPool::make(sys::ControllerSet controllers)
{
    BERTH_CHECK(record());
    return tree().make(fmt::format("{}-{}", name_, made_++), controllers,
                       sys::CgroupTree::Leaf::IfItHoldsALimit);
}

Result<sys::SandboxGroup> GroupPool::take(const sys::GroupLimits& limits)
{
    const auto controllers = limits.controllers();
    auto& ready = ready_[controllers.to_ulong()];
    if (ready.empty()) {
        BERTH_TRY(auto group, make(controllers));
        ready.push_back(std::move(group));
    }
    sys::SandboxGroup group = std::move(ready.front());
    ready.pop_front();
    BERTH_CHECK(group.set_limits(limits));
    return group;
}

Status GroupPool::refill(std::size_t count)
{
    for (auto& [controllers, ready] : ready_)
        while (ready.size() < count) {
            BERTH_TRY(auto group, make(controllers));
            ready.push_back(std::move(group));
        }
    return {};
}

LimitAvailability availability_of(const sys::CgroupTree& tree)
{
    return {.memory = holding(tree.of(sys::Controller::Memory), "memory"),
            .cpu = holding(tree.of(sys::Controller::Cpu), "cpu"),
            .pids = holding(tree.of(sys::Controller::Pids), "pids")};
}

std::vector<std::string> sweep_groups(const StateDir& state)
{
    return sweep(state.limited(), dead_records(state.limited()));
}

} // namespace berth::local
