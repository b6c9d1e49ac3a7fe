#include "keeping/kept_backend.hpp"

#include <algorithm>

namespace berth::keeping {

template <class F>
auto KeptBackend::with_files(SandboxHandle handle, std::string user, F work)
    -> Task<std::invoke_result_t<F, const sys::SandboxFiles&>>
{
    using Answer = std::invoke_result_t<F, const sys::SandboxFiles&>;
    BERTH_CO_TRY(const auto files, co_await files_of(std::move(handle), std::move(user)));
    co_return co_await pool_.call([&]() -> Answer { return work(files); });
}

namespace {

FileEntry::Kind kind_of(sys::FileKind kind)
{
    switch (kind) {
    case sys::FileKind::Regular: return FileEntry::Kind::Regular;
    case sys::FileKind::Directory: return FileEntry::Kind::Directory;
    case sys::FileKind::Symlink: return FileEntry::Kind::Symlink;
    case sys::FileKind::Other: return FileEntry::Kind::Other;
    }
    return FileEntry::Kind::Other;
}

FileEntry entry_of(sys::FileEntry entry, const image::ReadIds& ids)
{
    constexpr std::uint64_t nobody = 65534;
    const auto inside = [&](std::uint32_t id, std::uint32_t first) {
        return static_cast<std::uint32_t>(std::min(ids.inside(id, first), nobody));
    };
    return {.name = std::move(entry.name),
            .kind = kind_of(entry.kind),
            .size = entry.size,
            .mode = entry.mode,
            .modified = entry.modified,
            .target = std::move(entry.target),
            .uid = inside(entry.uid, ids.first_uid),
            .gid = inside(entry.gid, ids.first_gid)};
}

} // namespace

Task<Result<image::ReadIds>> KeptBackend::ids_of(SandboxHandle) { co_return image::ReadIds{}; }

Task<Result<std::string>> KeptBackend::read_file(SandboxHandle sandbox, FilePath file, Bytes limit)
{
    const auto read = [&](const sys::SandboxFiles& files) { return files.read(file.path, limit); };
    co_return co_await with_files(sandbox, file.user, read);
}

Task<Status> KeptBackend::write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                     std::optional<unsigned> mode)
{
    const auto write = [&](const sys::SandboxFiles& files) {
        return files.write(file.path, bytes, {.mode = mode});
    };
    co_return co_await with_files(sandbox, file.user, write);
}

Task<Result<std::vector<FileEntry>>> KeptBackend::list_files(SandboxHandle sandbox, FilePath directory)
{
    BERTH_CO_TRY(const auto ids, co_await ids_of(sandbox));
    const auto list = [&](const sys::SandboxFiles& files) -> Result<std::vector<FileEntry>> {
        BERTH_TRY(auto entries, files.list(directory.path));
        std::vector<FileEntry> out;
        out.reserve(entries.size());
        for (auto& entry : entries) out.push_back(entry_of(std::move(entry), ids));
        return out;
    };
    co_return co_await with_files(sandbox, directory.user, list);
}

Task<Result<FileEntry>> KeptBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    BERTH_CO_TRY(const auto ids, co_await ids_of(sandbox));
    const auto stat = [&](const sys::SandboxFiles& files) -> Result<FileEntry> {
        const auto follow = file.follow ? sys::Follow::Yes : sys::Follow::No;
        BERTH_TRY(auto entry, files.stat(file.path, follow));
        return entry_of(std::move(entry), ids);
    };
    co_return co_await with_files(sandbox, file.user, stat);
}

Task<Status> KeptBackend::make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents)
{
    const auto how = parents == MakeParents::Yes ? sys::Parents::Make : sys::Parents::Existing;
    const auto make = [&](const sys::SandboxFiles& files) {
        return files.make_dir(directory.path, 0755, how);
    };
    co_return co_await with_files(sandbox, directory.user, make);
}

Task<Status> KeptBackend::move_file(SandboxHandle sandbox, FilePath from, std::string to)
{
    const auto move = [&](const sys::SandboxFiles& files) { return files.move(from.path, to); };
    co_return co_await with_files(sandbox, from.user, move);
}

Task<Status> KeptBackend::move_over(SandboxHandle sandbox, FilePath from, std::string to)
{
    const auto move = [&](const sys::SandboxFiles& files) {
        return files.move(from.path, to, sys::Replace::Yes);
    };
    co_return co_await with_files(sandbox, from.user, move);
}

Task<Status> KeptBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    const auto depth = tree == RemoveTree::Yes ? sys::Depth::Tree : sys::Depth::Entry;
    const auto remove = [&](const sys::SandboxFiles& files) { return files.remove(file.path, depth); };
    co_return co_await with_files(sandbox, file.user, remove);
}

Task<Result<UniqueFd>> KeptBackend::open_file(SandboxHandle sandbox, FilePath file)
{
    const auto open = [&](const sys::SandboxFiles& files) { return files.open_file(file.path); };
    co_return co_await with_files(sandbox, file.user, open);
}

Task<Status> KeptBackend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    const auto fill = [&](const sys::SandboxFiles& files) {
        return files.write_from(file.path, contents.source.get(), contents.limit,
                                {.how = sys::WriteOptions::How::InPlace, .mode = contents.mode});
    };
    co_return co_await with_files(sandbox, file.user, fill);
}

Task<Status> KeptBackend::make_dir_for(SandboxHandle sandbox, FilePath directory, std::string owner)
{
    BERTH_CO_TRY(const auto his, co_await files_of(sandbox, std::move(owner)));
    const auto make = [&](const sys::SandboxFiles& files) {
        return files.make_dir(directory.path, 0755, sys::Parents::Make, his.ids());
    };
    co_return co_await with_files(sandbox, directory.user, make);
}

Task<Status> KeptBackend::fill_file_for(SandboxHandle sandbox, FilePath file, FileContents contents,
                                        std::string owner)
{
    BERTH_CO_TRY(const auto his, co_await files_of(sandbox, std::move(owner)));
    const auto fill = [&](const sys::SandboxFiles& files) {
        return files.write_from(
            file.path, contents.source.get(), contents.limit,
            {.how = sys::WriteOptions::How::InPlace, .mode = contents.mode, .owner = his.ids()});
    };
    co_return co_await with_files(sandbox, file.user, fill);
}

} // namespace berth::keeping
