#include "cli/held.hpp"

namespace berth::cli {

Result<Acquired> Held::use(const std::string& ref)
{
    BERTH_TRY(auto acquired, run(berth_->lifecycle().use(ref)));
    sandboxes_.push_back(acquired.record.id());
    return acquired;
}

} // namespace berth::cli
