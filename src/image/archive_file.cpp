#include "image/archive_file.hpp"

#include <fcntl.h>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"

namespace berth::image {

namespace {

constexpr char kIndex[] = "tar-index.json";
constexpr std::size_t kMostIndexed = 64;

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

} // namespace

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

std::optional<std::string> known_digest(const Cache& cache, const Archive& archive)
{
    return look_up(read_index(cache), identity(archive.st));
}

void remember_digest(const Cache& cache, const Archive& archive, const std::string& sha256,
                     const Clock& clock)
{
    if (!settled(archive.st, clock)) return;
    json::Array index = read_index(cache);
    if (index.size() >= kMostIndexed) index.erase(index.begin());
    index.emplace_back(json::Object{{"file", identity(archive.st)}, {"sha256", sha256}});
    if (auto kept = replace_file_at(cache.dir(), kIndex, json::dump(json::Value(std::move(index)))); !kept)
        log::warn("the archive will be read again next time", {{"reason", kept.error().line()}});
}

Status check_unchanged(const Archive& archive)
{
    struct stat now{};
    if (::fstat(archive.file.get(), &now) != 0) return fail_errno("looking at {}", archive.path);
    if (identity(now) != identity(archive.st))
        return fail(Code::Conflict, "template {} changed while it was read", archive.path);
    return {};
}

} // namespace berth::image
