#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"
#include "policy/demand.hpp"
#include "prove/probe.hpp"

namespace berth::prove {

/// What a probe came to.
enum class Verdict {
    Held,    ///< as it must be
    NotHeld, ///< the opposite
    Unclear, ///< no answer: nothing is proven
    Absent,  ///< there is nothing to be tried
};

[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

struct Tried {
    std::string rule;
    std::string probe;
    Must must = Must::Fail;
    std::string user;
    Verdict verdict = Verdict::Unclear;
    bool sure = false; ///< of a refusal: nothing but the wall explains it
    std::string saw;   ///< "opening it to write: EROFS"
};

/// Where the backend says that a rule is held, which the probes of that rule tried.
struct Promised {
    std::string rule; ///< in the words of policy::Demand
    policy::Tier tier = policy::Tier::None;
    std::string how;
};

/// What was found out about one instance at one time.
struct Receipt {
    std::string id; ///< "rcpt_…"
    std::string sandbox;
    std::string backend;
    std::uint64_t generation = 1; ///< of the sandbox: which instance it was
    std::string policy;           ///< its name, for people
    std::string policy_hash;
    std::string kernel; ///< as the prober saw it: release and machine
    WallTime time{};
    std::vector<Promised> rules; ///< of the policy, in its order
    std::vector<Tried> probes;
    std::vector<Untried> untried;

    /// Nothing turned out otherwise than it must, and some wall was met.
    [[nodiscard]] bool held() const;
    /// The first probe that did, in words; empty: none.
    [[nodiscard]] std::string failure() const;
    /// Null: what no policy may give away has no rule of its own.
    [[nodiscard]] const Promised* promise(std::string_view rule) const;
};

/// Of everything but the name, which is for people.
[[nodiscard]] std::string policy_hash(const policy::Policy& policy);

/// A rule of which nothing that must fail was refused, and that says nowhere why, is not held by silence: it
/// is told among the untried.
void tell_hollow_rules(Receipt& receipt);

[[nodiscard]] json::Object to_json(const Receipt& receipt);

} // namespace berth::prove
