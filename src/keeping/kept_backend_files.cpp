#include "keeping/kept_backend.hpp"

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

FileEntry entry_of(sys::FileEntry entry)
{
    return {.name = std::move(entry.name),
            .kind = kind_of(entry.kind),
            .size = entry.size,
            .mode = entry.mode,
            .modified = entry.modified,
            .target = std::move(entry.target)};
}

} // namespace

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
    const auto list = [&](const sys::SandboxFiles& files) -> Result<std::vector<FileEntry>> {
        BERTH_TRY(auto entries, files.list(directory.path));
        std::vector<FileEntry> out;
        out.reserve(entries.size());
        for (auto& entry : entries) out.push_back(entry_of(std::move(entry)));
        return out;
    };
    co_return co_await with_files(sandbox, directory.user, list);
}

Task<Result<FileEntry>> KeptBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    const auto stat = [&](const sys::SandboxFiles& files) -> Result<FileEntry> {
        BERTH_TRY(auto entry, files.stat(file.path));
        return entry_of(std::move(entry));
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

Task<Status> KeptBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    const auto depth = tree == RemoveTree::Yes ? sys::Depth::Tree : sys::Depth::Entry;
    const auto remove = [&](const sys::SandboxFiles& files) { return files.remove(file.path, depth); };
    co_return co_await with_files(sandbox, file.user, remove);
}

} // namespace berth::keeping
