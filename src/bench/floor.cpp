#include "bench/bench.hpp"
#include "bench/measure.hpp"

namespace berth::bench {

/// What the kernel itself costs: the references, and one against the other.
Result<std::vector<Table>> bench_floor(Context& context)
{
    Table table{.name = "floor"};
    std::vector<Case> cases;
    for (const auto name : {kR0, kRA, kRB}) {
        BERTH_TRY(auto one, reference(name));
        cases.push_back(std::move(one));
    }
    table.claims.push_back({.subject = std::string(kRA), .reference = std::string(kR0)});
    table.claims.push_back({.subject = std::string(kRB), .reference = std::string(kRA)});
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    return std::vector{std::move(table)};
}

} // namespace berth::bench
