#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "lifecycle/documents.hpp"
#include "policy/document.hpp"
#include "server/own/api.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

Result<policy::Policy> read_policy(const json::Reader& reader)
{
    BERTH_TRY(const auto there, reader.find("policy"));
    if (!there) return policy::preset("sandbox");
    if (there->value().is_string()) {
        BERTH_TRY(const auto name, there->string());
        return policy::preset(name);
    }
    return policy::parse(json::dump(there->value()), policy::Syntax::Json);
}

Task<Answer> Api::list_policies(Call&)
{
    json::Object out;
    out["presets"] = documents::text_array(policy::preset_names());
    co_return http::json_response(200, out);
}

Task<Answer> Api::show_policy(Call& call)
{
    const auto& name = call.parameters.front();
    const auto found = policy::preset(name);
    if (!found) co_return fail(Code::NotFound, "no such preset: '{}'", printable(name, 60));
    co_return http::json_response(200, policy::to_json(*found));
}

Task<Answer> Api::check_policy(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("PolicyWish")));
    BERTH_CO_TRY(const auto asked, read_policy(reader));
    json::Object out;
    out["valid"] = true;
    out["policy"] = policy::to_json(asked);
    co_return http::json_response(200, out);
}

Task<Answer> Api::explain_policy(Call& call)
{
    BERTH_CO_TRY(const auto body, co_await body_of(call));
    const json::Reader reader(body);
    BERTH_CO_CHECK(reader.only(members_of("PolicyWish")));
    SandboxSpec spec;
    BERTH_CO_TRY(spec.policy, read_policy(reader));
    BERTH_CO_TRY(const auto* const where, co_await lifecycle().backend(ground_.backend));
    auto out = documents::explanation(spec, where->capabilities().holds);
    out["backend"] = ground_.backend;
    co_return http::json_response(200, out);
}

Task<Answer> Api::sandbox_policy(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto* const where, co_await lifecycle().backend(record.backend));
    auto out = documents::explanation(record.spec, where->capabilities().holds);
    out["backend"] = record.backend;
    out["policy"] = policy::to_json(record.spec.policy);
    co_return http::json_response(200, out);
}

} // namespace berth::own
