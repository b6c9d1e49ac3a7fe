#include "lifecycle/workspace_tar.hpp"

#include "lifecycle/zstd_file.hpp"

namespace berth::workspace_tar {

namespace {

constexpr const char* kFile = "workspace.tar.zst";

} // namespace

std::string tree_of(const SandboxSpec& spec)
{
    if (!spec.workdir.empty()) return spec.workdir;
    return spec.user == "root" ? "/root" : "/home/user";
}

Task<Result<SnapshotTaken>> take(Backend& backend, SandboxHandle sandbox, SandboxSpec spec,
                                 std::string directory)
{
    const auto begun = system_clock().steady();
    BERTH_CO_TRY(auto file, ZstdWriter::create(directory, kFile));
    const ByteSink sink = [&](std::string_view bytes) { return file.write(bytes); };
    const std::string tree = tree_of(spec);
    BERTH_CO_CHECK(co_await backend.read_archive(std::move(sandbox), {.path = tree, .user = {}}, {}, sink));
    BERTH_CO_TRY(const auto written, file.finish());
    SnapshotTaken taken{.kind = std::string(snapshot_kind::kWorkspaceTar),
                        .bytes = written.bytes,
                        .sha256 = written.sha256,
                        .file = kFile,
                        .live_copy = true,
                        .elapsed = system_clock().steady() - begun,
                        .notes = {}};
    taken.notes.push_back(fmt::format("only {} is part of it; memory and processes are not", tree));
    co_return taken;
}

Task<Status> restore(Backend& backend, SandboxHandle sandbox, SandboxSpec spec, std::string directory)
{
    BERTH_CO_TRY(auto file, ZstdReader::open(directory, kFile));
    const ByteSource source = [&] { return file.read(); };
    co_return co_await backend.write_archive(std::move(sandbox), {.path = tree_of(spec), .user = {}}, source,
                                             {});
}

} // namespace berth::workspace_tar
