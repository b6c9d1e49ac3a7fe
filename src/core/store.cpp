#include "core/store.hpp"

namespace berth {

bool SandboxRecord::live() const noexcept
{
    return superseded_by.empty() && state != State::Destroyed && state != State::Failed &&
           state != State::Detached;
}

} // namespace berth
