#include "backend/local/settle_log.hpp"

#include <algorithm>

#include "backend/local/instance_lock.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/shared.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/pause.hpp"

namespace berth::local {

namespace {

/// A living keeper answers for those it started itself; one that was started later knows nothing of those
/// before.
Result<bool> known_to_keeper(int directory, const std::string& exec)
{
    BERTH_TRY(const auto number, keeper_id(exec));
    BERTH_TRY(const auto instance, read_instance(directory));
    BERTH_TRY(const auto pidfd, open_keeper(instance));
    if (!pidfd) return false;
    BERTH_TRY(auto keeper, reach_keeper(directory, pidfd.get()));
    if (!keeper) return false;
    BERTH_TRY(const auto items, keeper->list());
    return std::ranges::any_of(items, [&](const auto& item) { return item.exec == number; });
}

} // namespace

Status settle_log(const StateDir& state, const std::string& native, const std::string& exec)
{
    BERTH_TRY(const auto directory, open_instance(state, native));
    BERTH_TRY(const auto log, open_log(directory.get(), exec));
    if (const auto closed = log.closed(); closed && *closed) { // a damaged one is not
        BERTH_CHECK(log.sync());
        return keeping::trim_logs_after(directory.get(), exec);
    }
    if (const auto known = known_to_keeper(directory.get(), exec); known && *known) return log.sync();
    // Nobody changes the instance and nobody starts a command in it: now the answer stays true.
    BERTH_TRY(const auto locked, lock_instance(state, native));
    BERTH_TRY(const auto turn, Turn::take(locked.get(), Turn::Kind::Freeze));
    BERTH_TRY(const bool known, known_to_keeper(locked.get(), exec));
    if (!known) BERTH_CHECK(finish_log(locked.get(), exec));
    return log.sync();
}

} // namespace berth::local
