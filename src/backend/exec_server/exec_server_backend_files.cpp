#include <fcntl.h>

#include "backend/exec_server/exec_server_backend.hpp"
#include "backend/exec_server/hands.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "scripted/archive.hpp"
#include "scripted/files.hpp"

namespace berth::exec_server {

namespace {

using scripted::Files;

constexpr std::string_view kEmpty = R"sh(
d "$1"; cd "$v" || exit 0
for n in .git .agents .codex .aws; do [ -d "$n" ] && [ -z "$(ls -A "$n")" ] && echo "$n"; done
exit 0
)sh";

} // namespace

Status ExecServerBackend::with_hands(const Instance& instance, FilePath& path,
                                     const std::function<Status(scripted::Files&)>& work)
{
    const auto& spec = instance.record.spec;
    if (!path.user.empty() && path.user != spec.user) return unsupported(Operation::Users, name());
    path.path = there(instance.layout, path.path);
    BERTH_TRY(const auto deeper, find_deeper(*server_, spec.policy, spec.policy, instance.layout));
    BERTH_TRY(const auto confines, confine(spec.policy, spec.policy, instance.layout, deeper));
    ServerHands hands(*server_, confines, instance.layout.work);
    Files files(hands);
    return work(files);
}

Task<Result<std::string>> ExecServerBackend::read_file(SandboxHandle sandbox, FilePath file, Bytes limit)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::string> {
        std::string out;
        const ByteSink keep = [&](std::string_view bytes) -> Status {
            out += bytes;
            return {};
        };
        BERTH_CHECK(with_hands(instance, file, [&](Files& files) { return files.read(file, limit, keep); }));
        return out;
    });
}

Task<Status> ExecServerBackend::write_file(SandboxHandle sandbox, FilePath file, std::string bytes,
                                           std::optional<unsigned> mode)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, file, [&](Files& files) { return files.write(file, bytes, mode); });
    });
}

Task<Result<std::vector<FileEntry>>> ExecServerBackend::list_files(SandboxHandle sandbox, FilePath directory)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::vector<FileEntry>> {
        std::vector<FileEntry> out;
        BERTH_CHECK(with_hands(instance, directory, [&](Files& files) -> Status {
            BERTH_TRY(out, files.list(directory));
            return {};
        }));
        return out;
    });
}

Task<Result<FileEntry>> ExecServerBackend::stat_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<FileEntry> {
        FileEntry out;
        BERTH_CHECK(with_hands(instance, file, [&](Files& files) -> Status {
            BERTH_TRY(out, files.stat(file));
            return {};
        }));
        return out;
    });
}

Task<Status> ExecServerBackend::make_dir(SandboxHandle sandbox, FilePath directory, MakeParents parents)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, directory,
                          [&](Files& files) { return files.make_dir(directory, parents); });
    });
}

Task<Status> ExecServerBackend::move_file(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, from,
                          [&](Files& files) { return files.move(from, there(instance.layout, to)); });
    });
}

Task<Status> ExecServerBackend::move_over(SandboxHandle sandbox, FilePath from, std::string to)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, from,
                          [&](Files& files) { return files.move_over(from, there(instance.layout, to)); });
    });
}

Task<Status> ExecServerBackend::remove_file(SandboxHandle sandbox, FilePath file, RemoveTree tree)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, file, [&](Files& files) { return files.remove(file, tree); });
    });
}

Task<Result<UniqueFd>> ExecServerBackend::open_file(SandboxHandle sandbox, FilePath file)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<UniqueFd> {
        BERTH_TRY(const auto directory, state_.directory());
        UniqueFd spool;
        const auto read = [&](Files& files) -> Status {
            BERTH_TRY(spool, files.read_aside(file, directory.get()));
            return {};
        };
        BERTH_CHECK(with_hands(instance, file, read));
        return spool;
    });
}

Task<Status> ExecServerBackend::fill_file(SandboxHandle sandbox, FilePath file, FileContents contents)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, file, [&](Files& files) { return files.fill(file, contents); });
    });
}

Task<Status> ExecServerBackend::read_archive(SandboxHandle sandbox, FilePath directory,
                                             ArchiveOptions options, ByteSink sink)
{
    co_return co_await with(sandbox, [&](const Instance& instance) {
        return with_hands(instance, directory, [&](Files& files) -> Status {
            // A server shows empty directories in the place of names that it protects: they are not of the
            // tree.
            if (directory.path == instance.layout.work) {
                const scripted::Command look{
                    .script = std::string(kEmpty), .arguments = {directory.path}, .user = {}, .out = {}};
                BERTH_TRY(const auto shown, files.run(look, directory.path));
                for (const auto& name : split(shown.out, '\n'))
                    if (!name.empty()) options.skip.push_back(name);
            }
            return scripted::read_tree(files, directory, options, sink);
        });
    });
}

Task<Status> ExecServerBackend::write_archive(SandboxHandle sandbox, FilePath directory, ByteSource source,
                                              ArchiveLimits limits)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Status {
        BERTH_TRY(const auto spool, state_.directory());
        return with_hands(instance, directory, [&](Files& files) {
            return scripted::write_tree(files, spool.get(), directory, source, limits);
        });
    });
}

} // namespace berth::exec_server
