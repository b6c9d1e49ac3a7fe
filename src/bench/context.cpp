#include "bench/context.hpp"

#include <csignal>

#include "base/ids.hpp"

namespace berth::bench {

SandboxSpec Context::spec()
{
    SandboxSpec spec;
    spec.id = make_sandbox_id(system_clock());
    spec.policy.network = policy::Network::Host;
    ids_.insert(spec.id);
    return spec;
}

bool Context::interrupted()
{
    // A one-shot blocks these to forward them; between two of them they wait here.
    sigset_t waiting;
    if (::sigpending(&waiting) == 0 &&
        (::sigismember(&waiting, SIGINT) == 1 || ::sigismember(&waiting, SIGTERM) == 1))
        interrupted_ = true;
    return interrupted_;
}

} // namespace berth::bench
