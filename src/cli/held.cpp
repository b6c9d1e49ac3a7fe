#include "cli/held.hpp"

#include "cli/exec_options.hpp"

namespace berth::cli {

Result<SandboxRecord> Held::use(const std::string& ref)
{
    BERTH_TRY(auto acquired, run(berth_->lifecycle().use(ref)));
    say_unless_attached(acquired);
    sandboxes_.push_back(acquired.record.id());
    return std::move(acquired.record);
}

} // namespace berth::cli
