#include "cli/copy_side.hpp"

#include "base/strings.hpp"
#include "cli/app.hpp"

namespace berth::cli {

namespace {

std::string working_directory(const SandboxSpec& spec)
{
    if (!spec.workdir.empty()) return spec.workdir;
    for (const auto& mount : spec.mounts)
        if (mount.workspace) return mount.target;
    return spec.user == "root" ? "/root" : "/home/user";
}

} // namespace

Result<SandboxSide> SandboxSide::open(Held& held, const CopyPath& where, const std::string& user)
{
    BERTH_TRY(auto acquired, held.use(where.ref));
    const auto& record = acquired.record;
    BERTH_TRY(auto* const backend, held.berth().backend(record.backend));
    const std::string path =
        where.path.starts_with('/') ? where.path : join(working_directory(record.spec), where.path);
    return SandboxSide(held, *backend, std::move(acquired), path, user);
}

Result<bool> SandboxSide::directory_at(const std::string& path) const
{
    const FilePath inside{.path = join(path, "."), .user = user_};
    const auto entry = held_->run(backend_->stat_file(sandbox_, inside));
    if (entry) return entry->kind == FileEntry::Kind::Directory;
    const auto& error = entry.error();
    if (error.code == Code::NotFound || error.sys.value() == ENOTDIR) return false;
    return std::unexpected(error);
}

Result<bool> SandboxSide::is_directory() const { return directory_at(path_); }

Task<Status> SandboxSide::read_task(ByteSink sink) const
{
    ArchiveOptions options;
    options.mounts = true;
    options.left_out = [](const std::string& path, std::string_view why) {
        say(fmt::format("{} is left out: {}", printable(path), why));
    };
    const FilePath what{.path = path_, .user = user_};
    return backend_->read_archive(sandbox_, what, std::move(options), std::move(sink));
}

Status SandboxSide::named(Status done, std::string_view what) const
{
    if (done) return done;
    return std::unexpected(std::move(done).error().while_doing(
        fmt::format("{} {}:{}", what, sandbox_.sandbox, printable(path_, 200))));
}

Status SandboxSide::read(ByteSink sink) const
{
    return named(held_->run(read_task(std::move(sink))), "reading");
}

Task<Status> SandboxSide::write_task(std::string directory, ByteSource source, ArchiveLimits limits) const
{
    const FilePath where{.path = std::move(directory), .user = user_};
    return backend_->write_archive(sandbox_, where, std::move(source), limits);
}

Status SandboxSide::write(const std::string& directory, ByteSource source, ArchiveLimits limits) const
{
    return named(held_->run(write_task(directory, std::move(source), limits)), "writing");
}

Status SandboxSide::make(const CopyTarget& target) const
{
    if (!target.make) return {};
    BERTH_TRY(const bool there, directory_at(target.directory));
    if (there) return {};
    const FilePath where{.path = target.directory, .user = user_};
    return named(held_->run(backend_->make_dir(sandbox_, where, MakeParents::No)), "writing");
}

Status SandboxSide::write_tree(const CopyTarget& target, ByteSource source, ArchiveLimits limits) const
{
    BERTH_CHECK(make(target));
    return write(target.directory, std::move(source), limits);
}

} // namespace berth::cli
