#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "local_fixture.hpp"

#include "backend/local/layer_manifest.hpp"

namespace berth::local {

namespace fs = std::filesystem;

/// Sandboxes of which snapshots are taken; what is left of their layers afterwards is a failure.
class Layers : public LocalFixture {
protected:
    /// Root inside where there can be one: more of the file system is its own.
    static SandboxSpec rooted()
    {
        SandboxSpec out = spec();
        if (::geteuid() == 0) out.user = "root";
        return out;
    }
    static SnapshotRequest request()
    {
        SnapshotRequest out;
        out.id = make_snapshot_id(system_clock());
        out.directory = dir_ + "/snapshots/" + out.id;
        fs::create_directories(out.directory);
        return out;
    }
    static SnapshotSource source_of(const SnapshotRequest& taken)
    {
        return {.id = taken.id, .kind = "berth_layer", .directory = taken.directory};
    }
    static SnapshotTaken take(const SandboxHandle& sandbox, const SnapshotRequest& what)
    {
        auto taken = run_task(backend_->snapshot(sandbox, what));
        EXPECT_TRUE(taken) << taken.error().line();
        return taken.value_or(SnapshotTaken{});
    }
    static SnapshotSource take(const SandboxHandle& sandbox)
    {
        const auto what = request();
        take(sandbox, what);
        return source_of(what);
    }
    static Result<std::string> put(const SnapshotSource& snapshot, const LayerManifest& manifest)
    {
        const UniqueFd layers(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        return write_manifest(snapshot.directory, manifest, layers.get());
    }
    static CreateRequest from(const SnapshotSource& snapshot)
    {
        CreateRequest out{rooted()};
        out.from = snapshot;
        return out;
    }
    static std::vector<std::string> layers()
    {
        std::vector<std::string> out;
        for (const auto& entry : fs::directory_iterator(dir_ + "/state/layer"))
            out.push_back(entry.path().filename());
        std::ranges::sort(out);
        return out;
    }
    static Collected collect(bool dry_run = false)
    {
        auto gone = run_task(backend_->collect(dir_ + "/snapshots", dry_run));
        EXPECT_TRUE(gone) << gone.error().line();
        return gone.value_or(Collected{});
    }
    void TearDown() override
    {
        LocalFixture::TearDown();
        fs::remove_all(dir_ + "/snapshots");
        collect();
        EXPECT_TRUE(layers().empty());
    }
    static bool can_freeze() { return backend_->capabilities().can(Operation::Pause); }
};

} // namespace berth::local
