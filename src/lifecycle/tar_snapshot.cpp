#include "lifecycle/tar_snapshot.hpp"

#include "core/tells_image.hpp"
#include "core/tells_workspace.hpp"
#include "lifecycle/zstd_file.hpp"

namespace berth::tar_snapshot {

namespace {

constexpr const char* kWorkspaceFile = "workspace.tar.zst";

/// What a tar holds, and as whom it is read.
struct Part {
    FilePath tree;
    std::string file;
    std::string note;
};

Task<Result<Part>> part_of(Backend& backend, SandboxHandle sandbox, SandboxSpec spec, std::string kind)
{
    if (kind == snapshot_kind::kRootTar)
        co_return Part{.tree = {.path = "/", .user = "root"},
                       .file = std::string(snapshot_kind::kRootTarFile),
                       .note = "memory, processes and what is mounted are not part of it"};
    BERTH_CO_TRY(const auto tree, co_await workspace_of(backend, std::move(sandbox), std::move(spec)));
    co_return Part{.tree = {.path = tree, .user = {}},
                   .file = kWorkspaceFile,
                   .note = fmt::format("only {} is part of it; memory and processes are not", tree)};
}

/// What its image asks for is not in its files.
Task<Status> keep_defaults(Backend& backend, SandboxHandle sandbox, std::string directory)
{
    auto* const tells = dynamic_cast<TellsImage*>(&backend);
    if (tells == nullptr) co_return Status{};
    BERTH_CO_TRY(const auto asked, co_await tells->image_defaults(std::move(sandbox)));
    co_return keep_image_defaults(directory, asked);
}

} // namespace

bool is_kind(std::string_view kind) noexcept
{
    return kind == snapshot_kind::kRootTar || kind == snapshot_kind::kWorkspaceTar;
}

Task<Result<std::string>> workspace_of(Backend& backend, SandboxHandle sandbox, SandboxSpec spec)
{
    if (!spec.workdir.empty()) co_return spec.workdir;
    if (auto* const tells = dynamic_cast<TellsWorkspace*>(&backend))
        co_return co_await tells->workspace(std::move(sandbox));
    co_return std::string(spec.user == "root" ? "/root" : "/home/user");
}

Status check(const SandboxSpec& spec, std::string_view kind)
{
    const bool of_host = spec.root.kind == Template::Kind::Host || spec.root.kind == Template::Kind::Live;
    if (kind != snapshot_kind::kRootTar || !of_host) return {};
    return fail(
        Code::Unsupported,
        "the programs of template {} are the host's own and cannot be taken along: a snapshot of kind "
        "{} has the sandbox's work",
        to_string(spec.root), snapshot_kind::kWorkspaceTar);
}

Task<Result<SnapshotTaken>> take(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                 SnapshotRequest request)
{
    const auto begun = system_clock().steady();
    BERTH_CO_TRY(auto part, co_await part_of(backend, sandbox, spec, request.kind));
    if (!backend.capabilities().can(Operation::Users)) part.tree.user.clear(); // it has but one
    BERTH_CO_TRY(auto file, ZstdWriter::create(request.directory, part.file));
    const ByteSink sink = [&](std::string_view bytes) {
        if (request.progress) request.progress(bytes.size());
        return file.write(bytes);
    };
    std::uint64_t left_out = 0;
    ArchiveOptions options;
    options.whole = request.kind == snapshot_kind::kRootTar;
    options.left_out = [&](const std::string&, std::string_view) { ++left_out; };
    if (options.whole) BERTH_CO_CHECK(co_await keep_defaults(backend, sandbox, request.directory));
    BERTH_CO_CHECK(co_await backend.read_archive(std::move(sandbox), part.tree, std::move(options), sink));
    BERTH_CO_TRY(const auto written, file.finish());
    SnapshotTaken taken{.kind = request.kind,
                        .bytes = written.bytes,
                        .sha256 = written.sha256,
                        .file = part.file,
                        .live_copy = true,
                        .elapsed = system_clock().steady() - begun,
                        .notes = {part.note}};
    if (left_out != 0)
        taken.notes.push_back(fmt::format("{} sockets and devices cannot be part of it", left_out));
    co_return taken;
}

Task<Status> restore(Backend& backend, SandboxHandle sandbox, SandboxSpec spec, std::string directory)
{
    BERTH_CO_TRY(auto file, ZstdReader::open(directory, kWorkspaceFile));
    const ByteSource source = [&] { return file.read(); };
    BERTH_CO_TRY(const auto tree, co_await workspace_of(backend, sandbox, std::move(spec)));
    // What could be taken can be restored.
    co_return co_await backend.write_archive(std::move(sandbox), {.path = tree, .user = {}}, source,
                                             ArchiveLimits::whole_tree());
}

} // namespace berth::tar_snapshot
