#include "cli/session.hpp"

namespace berth::cli {

Result<std::unique_ptr<Berth>> open_berth(const Common& common)
{
    BERTH_TRY(auto path, state_path(common));
    return Berth::open({.data = std::move(path)});
}

} // namespace berth::cli
