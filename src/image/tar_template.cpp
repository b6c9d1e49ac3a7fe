#include "image/tar_template.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "image/digest.hpp"
#include "image/root_check.hpp"
#include "image/unpack.hpp"

namespace berth::image {

namespace {

constexpr char kIndex[] = "tar-index.json";
constexpr std::size_t kMostIndexed = 64;

struct Archive {
    UniqueFd file;
    std::string path;
    struct stat st{};
};

Result<Archive> open_archive(const std::string& path)
{
    Archive archive{.file = UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)),
                    .path = printable(path)};
    if (!archive.file) return fail_errno("opening template {}", archive.path);
    if (::fstat(archive.file.get(), &archive.st) != 0) return fail_errno("looking at {}", archive.path);
    if (!S_ISREG(archive.st.st_mode))
        return fail(Code::Invalid, "template {} is neither a directory nor a regular file", archive.path);
    return archive;
}

/// What stays the same as long as the file and its content do.
std::string identity(const struct stat& st)
{
    return fmt::format("{}:{}:{}:{}.{}:{}.{}", st.st_dev, st.st_ino, st.st_size, st.st_mtim.tv_sec,
                       st.st_mtim.tv_nsec, st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
}

/// File identity to digest. Only a shortcut: one that cannot be read is as good as none.
json::Array read_index(const Cache& cache)
{
    const auto text = read_file_at(cache.dir(), kIndex);
    if (!text) return {};
    auto document = json::parse(*text);
    if (!document || !document->is_array()) return {};
    return std::move(document->as_array());
}

std::optional<std::string> look_up(const json::Array& index, const std::string& key)
{
    for (const auto& value : index) {
        const json::Reader entry(value);
        const auto file = entry.at("file");
        const auto digest = entry.at("sha256");
        if (!file || !digest) continue;
        if (const auto name = file->string(); !name || *name != key) continue;
        if (auto text = digest->string(); text && text->size() == 64) return *std::move(text);
    }
    return std::nullopt;
}

/// A file that changed within the last tick of its clock may change again and look the same.
bool settled(const struct stat& st, const Clock& clock)
{
    using namespace std::chrono;
    const auto changed = seconds(st.st_ctim.tv_sec) + nanoseconds(st.st_ctim.tv_nsec);
    return clock.now().time_since_epoch() - changed > 2s;
}

void remember(const Cache& cache, const Archive& archive, const std::string& sha256)
{
    json::Array index = read_index(cache);
    if (index.size() >= kMostIndexed) index.erase(index.begin());
    index.emplace_back(json::Object{{"file", identity(archive.st)}, {"sha256", sha256}});
    if (auto kept = replace_file_at(cache.dir(), kIndex, json::dump(json::Value(std::move(index)))); !kept)
        log::warn("the archive will be read again next time", {{"reason", kept.error().line()}});
}

Result<std::optional<TarTemplate>> find(const Cache& cache, const std::string& sha256)
{
    BERTH_TRY(const auto record, cache.find("tar-" + sha256));
    if (!record) return std::nullopt;
    const std::string dir = cache.path() + "/tar-" + sha256;
    return TarTemplate{.dir = dir,
                       .root = dir + "/root",
                       .sha256 = sha256,
                       .ids = record->starts_with("sandbox") ? Ids::Sandbox : Ids::Maker};
}

Result<std::string> fill(int dir, const Archive& archive)
{
    BERTH_TRY(const Ids ids, ids_possible_in(dir));
    if (::mkdirat(dir, "root", 0755) != 0) return fail_errno("creating root");
    const UniqueFd root(::openat(dir, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root) return fail_errno("opening root");
    if (::fchmod(root.get(), 0755) != 0) return fail_errno("setting the mode of root");
    if (::lseek(archive.file.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding {}", archive.path);
    BERTH_TRY(const UnpackReport report, unpack_tar(archive.file.get(), root.get(), {.ids = ids}));
    hooks::kill_point("template:unpacked");
    BERTH_CHECK(check_root(root.get(), "template " + archive.path));

    struct stat now{};
    if (::fstat(archive.file.get(), &now) != 0) return fail_errno("looking at {}", archive.path);
    if (identity(now) != identity(archive.st))
        return fail(Code::Conflict, "template {} changed while it was read", archive.path);
    return fmt::format("{} {} entries\n", ids == Ids::Sandbox ? "sandbox" : "maker", report.entries);
}

} // namespace

Result<TarTemplate> ensure_tar_template(const std::string& cache_dir, const std::string& tar,
                                        const Progress& progress, const Clock& clock)
{
    BERTH_TRY(const Cache cache, Cache::open(cache_dir));
    BERTH_TRY(const Archive archive, open_archive(tar));
    const std::string key = identity(archive.st);
    if (const auto known = look_up(read_index(cache), key)) {
        BERTH_TRY(auto found, find(cache, *known));
        if (found) return *std::move(found);
    }

    BERTH_TRY(const CacheLock lock, cache.lock("tar", progress));
    if (progress) progress("reading template " + archive.path);
    BERTH_TRY(const std::string sha256, sha256_of(archive.file.get(), archive.path));
    BERTH_TRY(auto found, find(cache, sha256));
    if (!found) {
        if (progress) progress("unpacking template " + archive.path + " (once for its content)");
        auto made = cache.make(lock, "tar-" + sha256, [&](int dir) { return fill(dir, archive); });
        if (!made)
            return std::unexpected(
                std::move(made).error().while_doing("making a template of " + archive.path));
        BERTH_TRY(found, find(cache, sha256));
        if (!found) return fail(Code::Internal, "template tar-{} is gone right after it was made", sha256);
    }
    if (settled(archive.st, clock)) remember(cache, archive, sha256);
    return *std::move(found);
}

} // namespace berth::image
