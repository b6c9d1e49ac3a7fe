#include "server/gate/documents.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <mutex>

#include "base/io.hpp"

namespace berth::gate {

Result<UniqueFd> open_directory(const std::string& path)
{
    BERTH_CHECK(make_dirs(path, 0700));
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", path);
    return directory;
}

struct Documents::Slot {
    std::uint64_t asked = 0; ///< of the loop
    std::mutex mutex;        ///< held by whoever changes the file; guards what follows
    std::uint64_t done = 0;  ///< the newest change that is on disk
};

Documents::Documents(BlockingPool& pool, std::string directory)
    : pool_(pool), directory_(std::move(directory))
{
}

Task<Status> Documents::save(std::string name, std::string text)
{
    return change(name, [name, text = std::move(text)](int directory) {
        return replace_file_at(directory, name, text, 0600);
    });
}

Task<Status> Documents::remove(std::string name)
{
    return change(name, [name](int directory) -> Status {
        if (::unlinkat(directory, name.c_str(), 0) != 0 && errno != ENOENT)
            return fail_errno("removing {}", name);
        return {};
    });
}

Task<Status> Documents::change(std::string name, std::function<Status(int directory)> work)
{
    auto& known = changing_[name];
    if (!known) known = std::make_shared<Slot>();
    const auto slot = known;
    const auto number = ++slot->asked;
    auto changed = co_await pool_.call([&]() -> Status {
        const std::lock_guard lock(slot->mutex);
        if (slot->done > number) return {}; // something newer is there already
        BERTH_TRY(const auto directory, open_directory(directory_));
        BERTH_CHECK(work(directory.get()));
        slot->done = number;
        return {};
    });
    // The map's and ours: nobody else is at it.
    if (slot.use_count() == 2) changing_.erase(name);
    co_return changed;
}

} // namespace berth::gate
