#include "lifecycle/answers.hpp"

#include "base/strings.hpp"

namespace berth {

std::string_view to_string(Tier tier) noexcept
{
    switch (tier) {
    case Tier::Attached: return "attached";
    case Tier::Started: return "started";
    case Tier::Restored: return "restored";
    case Tier::Fresh: return "fresh";
    }
    return "fresh";
}

Result<OnStateLoss> parse_on_state_loss(std::string_view text)
{
    if (text == "restore") return OnStateLoss::Restore;
    if (text == "error") return OnStateLoss::Error;
    if (text == "fresh") return OnStateLoss::Fresh;
    return fail(Code::Invalid, "'{}' is none of restore, error, fresh", printable(text, 40));
}

} // namespace berth
