#include "backend/exec_server/record.hpp"

#include "core/spec_json.hpp"
#include "keeping/labels_json.hpp"

namespace berth::exec_server {

std::string write_record(const Record& record)
{
    json::Object out;
    out["v"] = 1;
    out["spec"] = to_json(record.spec);
    out["labels"] = keeping::to_json(record.labels);
    out["made"] = record.made;
    return json::dump(out);
}

Result<Record> read_record(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader at(document);
    BERTH_TRY(const auto version, at.at("v"));
    BERTH_TRY([[maybe_unused]] const auto number, version.integer(1, 1));
    Record out;
    BERTH_TRY(const auto spec, at.at("spec"));
    BERTH_TRY(out.spec, read_spec(spec));
    BERTH_TRY(const auto labels, at.at("labels"));
    BERTH_TRY(out.labels, keeping::read_labels(labels));
    BERTH_TRY(const auto made, at.at("made"));
    BERTH_TRY(out.made, made.boolean());
    return out;
}

} // namespace berth::exec_server
