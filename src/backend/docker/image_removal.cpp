#include "backend/docker/image_removal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/json_reader.hpp"

namespace berth::docker {

namespace {

constexpr std::string_view kGoing = ".going-";
constexpr std::string_view kAlgorithm = "sha256:";

std::string note_of(const std::string& id) { return std::string(kGoing) + id.substr(kAlgorithm.size()); }

bool is_id(std::string_view id)
{
    return id.size() == kAlgorithm.size() + 64 && id.starts_with(kAlgorithm) &&
           id.find_first_not_of("0123456789abcdef", kAlgorithm.size()) == std::string_view::npos;
}

bool is_settled(const Status& done)
{
    return done || done.error().code == Code::NotFound || done.error().code == Code::Conflict;
}

Result<bool> has_names(const Engine& engine, const std::string& id)
{
    BERTH_TRY(const auto document, engine.get("/images/" + url_encode(id) + "/json"));
    BERTH_TRY(const auto tags, json::Reader(document).find("RepoTags"));
    if (!tags) return false;
    BERTH_TRY(const auto names, tags->strings());
    return !names.empty();
}

} // namespace

Status remove_image(const Where& where, const KnownImage& image, bool force)
{
    const bool noted = is_id(image.id);
    if (noted) {
        const UniqueFd note(::openat(where.dirs.fd(), note_of(image.id).c_str(),
                                     O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!note) return fail_errno("noting that image {} goes", image.name);
    }
    auto done = where.engine.remove("/images/" + url_encode(image.name) + (force ? "?force=1" : ""));
    if (noted && is_settled(done)) ::unlinkat(where.dirs.fd(), note_of(image.id).c_str(), 0);
    return done;
}

Status finish_removals(const Where& where)
{
    BERTH_TRY(const auto names, list_names(where.dirs.fd()));
    for (const auto& name : names) {
        if (!name.starts_with(kGoing)) continue;
        const std::string id = std::string(kAlgorithm) + name.substr(kGoing.size());
        const auto named = is_id(id) ? has_names(where.engine, id) : Result<bool>(true);
        if (!named && named.error().code != Code::NotFound) return std::unexpected(named.error());
        const auto done = named && !*named ? where.engine.remove("/images/" + url_encode(id)) : Status{};
        if (!is_settled(done)) return done;
        ::unlinkat(where.dirs.fd(), name.c_str(), 0);
    }
    return {};
}

} // namespace berth::docker
