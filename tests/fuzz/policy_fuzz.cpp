// Whatever parses, as JSON or as TOML, must be written and read back as itself in both, bind, be
// explained, and be narrower than itself.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policy/bind.hpp"
#include "policy/demand.hpp"
#include "policy/document.hpp"

namespace {

using namespace berth;
using namespace berth::policy;

void require(bool holds, std::string_view what, const Policy& policy)
{
    if (holds) return;
    fmt::print(stderr, "{}\n{}\n", what, to_toml(policy));
    std::abort();
}

/// TOML documents have no three quotes in a row, so a name with them is JSON's alone.
bool has_triple_quotes(const std::string& toml)
{
    return toml.find("\"\"\"") != std::string::npos || toml.find("'''") != std::string::npos;
}

void check(const Policy& policy)
{
    const auto from_json = parse(json::dump(to_json(policy)), Syntax::Json);
    require(from_json && *from_json == policy, "JSON does not round-trip", policy);
    const std::string toml = to_toml(policy);
    if (!has_triple_quotes(toml)) {
        const auto from_toml = parse(toml, Syntax::Toml);
        require(from_toml && *from_toml == policy, "TOML does not round-trip", policy);
    }

    Roots roots;
    roots.workspaces = {"/w", "/home/user/[x]*"};
    const auto files = bind_files(policy, roots);
    require(files.has_value(), "does not bind", policy);
    for (const std::string_view path :
         {"/", "/w/.git/config", "/home/user/[x]*/a/b", "/etc/passwd", "/a/b/c.env"})
        static_cast<void>(files->decide(path));
    const bool patterns = !files->empty() && !files->rules.back().pattern.empty();
    for (const auto& rule : files->rules)
        if (!patterns)
            require(files->decide(rule.path) <= rule.access, "a rule gives more than it says", policy);
    require(check_narrower(policy, policy, roots).has_value(), "is wider than itself", policy);
    static_cast<void>(admit(demands(policy), Holdings{}));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const Syntax syntax : {Syntax::Json, Syntax::Toml})
        if (const auto policy = parse(text, syntax)) check(*policy);
    return 0;
}
