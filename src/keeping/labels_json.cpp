#include "keeping/labels_json.hpp"

namespace berth::keeping {

namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 62;

Status read_text(const json::Reader& at, std::string_view name, std::string& out)
{
    BERTH_TRY(const auto member, at.at(name));
    BERTH_TRY(out, member.string());
    return {};
}

} // namespace

json::Object to_json(const InstanceLabels& labels)
{
    json::Object out;
    out["key"] = labels.key;
    out["spec_hash"] = labels.spec_hash;
    out["exo_hash"] = labels.exo_hash;
    out["owner"] = labels.owner;
    out["created"] = labels.created.time_since_epoch().count();
    out["generation"] = labels.generation;
    return out;
}

Result<InstanceLabels> read_labels(const json::Reader& at)
{
    InstanceLabels out;
    BERTH_CHECK(read_text(at, "key", out.key));
    BERTH_CHECK(read_text(at, "spec_hash", out.spec_hash));
    BERTH_CHECK(read_text(at, "exo_hash", out.exo_hash));
    BERTH_CHECK(read_text(at, "owner", out.owner));
    BERTH_TRY(const auto created_at, at.at("created"));
    BERTH_TRY(const auto created, created_at.integer(0, kMany));
    out.created = WallTime(std::chrono::nanoseconds(created));
    BERTH_TRY(const auto generation_at, at.at("generation"));
    BERTH_TRY(const auto generation, generation_at.integer(0, kMany));
    out.generation = static_cast<std::uint64_t>(generation);
    return out;
}

} // namespace berth::keeping
