#include "backend/e2b/labels.hpp"

#include "base/ids.hpp"
#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

constexpr const char* kVersion = "berth.sandbox.version"; // of this list of names
constexpr const char* kId = "berth.sandbox.id";
constexpr const char* kKey = "berth.sandbox.key";
constexpr const char* kHash = "berth.sandbox.spec-hash";
constexpr const char* kOwner = "berth.sandbox.owner";
constexpr const char* kCreated = "berth.sandbox.created";
constexpr const char* kGeneration = "berth.sandbox.generation";
constexpr const char* kFingerprint = "berth.sandbox.fingerprint";
constexpr const char* kUser = "berth.sandbox.user";
constexpr const char* kWorkdir = "berth.sandbox.workdir";
constexpr const char* kExoKey = "exo.sandbox.key";
constexpr const char* kExoHash = "exo.sandbox.spec-hash";

std::string value(const std::map<std::string, std::string>& all, const char* name)
{
    const auto at = all.find(name);
    return at == all.end() ? std::string{} : at->second;
}

} // namespace

std::map<std::string, std::string> metadata_of(const Identity& identity)
{
    const auto& labels = identity.labels;
    std::map<std::string, std::string> out{
        {kVersion, "1"},
        {kId, identity.sandbox},
        {kOwner, labels.owner},
        {kCreated, std::to_string(labels.created.time_since_epoch().count())},
        {kGeneration, std::to_string(labels.generation)},
        {kFingerprint, identity.fingerprint},
        {kUser, identity.user},
        {kWorkdir, identity.workdir},
    };
    const auto put = [&](const char* name, const std::string& text) {
        if (!text.empty()) out[name] = text;
    };
    put(kKey, labels.key);
    put(kHash, labels.spec_hash);
    put(kExoHash, labels.exo_hash);
    if (!labels.exo_hash.empty()) put(kExoKey, labels.key);
    return out;
}

std::optional<Identity> identity_of(const std::map<std::string, std::string>& metadata)
{
    Identity out;
    out.sandbox = value(metadata, kId);
    if (!is_id(out.sandbox, "sbx_")) return std::nullopt;
    out.labels.key = value(metadata, kKey);
    out.labels.spec_hash = value(metadata, kHash);
    out.labels.exo_hash = value(metadata, kExoHash);
    out.labels.owner = value(metadata, kOwner);
    const auto created = parse_int(value(metadata, kCreated), 0, INT64_MAX, "time");
    if (created) out.labels.created = WallTime(std::chrono::nanoseconds(*created));
    const auto generation = parse_int(value(metadata, kGeneration), 0, INT64_MAX, "generation");
    if (!generation) return std::nullopt;
    out.labels.generation = static_cast<std::uint64_t>(*generation);
    out.fingerprint = value(metadata, kFingerprint);
    out.user = value(metadata, kUser);
    out.workdir = value(metadata, kWorkdir);
    return out;
}

std::map<std::string, std::string> filter_all() { return {{kVersion, "1"}}; }

std::map<std::string, std::string> filter_sandbox(std::string_view sandbox)
{
    return {{kId, std::string(sandbox)}};
}

std::map<std::string, std::string> filter_instance(std::string_view sandbox, std::uint64_t generation)
{
    return {{kId, std::string(sandbox)}, {kGeneration, std::to_string(generation)}};
}

Found found_of(const e2b::SandboxView& view)
{
    Found out;
    out.sandbox.native = view.id;
    out.health = Health::Healthy;
    // Files are what a pause must keep; that the cloud may keep the memory too is more than we promise.
    out.state = view.paused ? State::Stopped : State::Running;
    if (auto identity = identity_of(view.metadata)) {
        out.sandbox.sandbox = identity->sandbox;
        out.labels = std::move(identity->labels);
    }
    return out;
}

} // namespace berth::e2b_client
