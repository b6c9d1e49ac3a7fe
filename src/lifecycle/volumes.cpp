#include "lifecycle/volumes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::volumes {

namespace {

constexpr std::string_view kCard = ".json";
constexpr std::string_view kTrash = ".removed";

Result<UniqueFd> open_root(const std::string& root)
{
    if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("creating {}", root);
    UniqueFd dir(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir) return fail_errno("opening {}", root);
    return dir;
}

Result<Known> read_card(int root, const std::string& directory)
{
    BERTH_TRY(const auto text, read_file_at(root, directory + std::string(kCard), 64_KiB));
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader at(document);
    Known out{.directory = directory, .key = {}, .name = {}};
    BERTH_TRY(const auto key, at.at("key"));
    BERTH_TRY(out.key, key.string());
    BERTH_TRY(const auto name, at.at("name"));
    BERTH_TRY(out.name, name.string());
    return out;
}

} // namespace

std::string owner_of(const std::string& key, const std::string& name)
{
    return name.starts_with(kShared) ? "shared" : key;
}

Status provide(const std::string& root, const std::string& key, SandboxSpec& spec)
{
    if (spec.volumes.empty()) return {};
    BERTH_TRY(const auto all, open_root(root));
    for (auto& volume : spec.volumes) {
        const std::string owner = owner_of(key, volume.name);
        const std::string directory = volume_directory_name(owner, volume.name);
        auto card = read_card(all.get(), directory);
        if (card && (card->key != owner || card->name != volume.name))
            return fail(Code::Conflict, "volume '{}': its directory belongs to volume '{}' of another key",
                        printable(volume.name, 60), printable(card->name, 60));
        if (!card) {
            if (card.error().code != Code::NotFound) return std::unexpected(std::move(card).error());
            json::Object text;
            text["key"] = owner;
            text["name"] = volume.name;
            BERTH_CHECK(replace_file_at(all.get(), directory + std::string(kCard), json::dump(text)));
        }
        if (::mkdirat(all.get(), directory.c_str(), 0755) != 0 && errno != EEXIST)
            return fail_errno("creating volume '{}'", printable(volume.name, 60));
        volume.source = fmt::format("{}/{}", root, directory);
    }
    return {};
}

Result<std::vector<Known>> list(const std::string& root)
{
    BERTH_TRY(const auto all, open_root(root));
    BERTH_TRY(const auto names, list_names(all.get()));
    std::vector<Known> out;
    for (const auto& name : names) {
        if (!name.ends_with(kCard) || name.size() != 16 + kCard.size()) continue;
        BERTH_TRY(auto known, read_card(all.get(), name.substr(0, 16)));
        out.push_back(std::move(known));
    }
    return out;
}

/// The card goes last: a removal that was killed is found and finished by the next.
Status remove(const std::string& root, const Known& volume)
{
    BERTH_TRY(const auto all, open_root(root));
    const std::string trash = volume.directory + std::string(kTrash);
    const auto empty_trash = [&]() -> Status {
        auto gone = sys::remove_tree(all.get(), trash);
        if (gone) return {};
        return std::unexpected(std::move(gone).error().while_doing(
            fmt::format("removing the files of volume '{}'", printable(volume.name, 60))));
    };
    // What a killed removal left would be in the way of a volume that was made since.
    BERTH_CHECK(empty_trash());
    if (::renameat(all.get(), volume.directory.c_str(), all.get(), trash.c_str()) != 0 && errno != ENOENT)
        return fail_errno("removing volume '{}'", printable(volume.name, 60));
    BERTH_CHECK(empty_trash());
    if (::unlinkat(all.get(), (volume.directory + std::string(kCard)).c_str(), 0) != 0 && errno != ENOENT)
        return fail_errno("removing volume '{}'", printable(volume.name, 60));
    return {};
}

} // namespace berth::volumes
