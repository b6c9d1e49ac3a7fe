#pragma once

#include <string>

#include "base/ids.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

/// A snapshot that is dropped with this.
class Taken {
public:
    explicit Taken(Context& c) : c_(c) {}
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken()
    {
        if (!source.id.empty() && !c_.place().stuck()) (void)c_.await(c_.backend().drop_snapshot(source));
    }
    Status take(const SandboxHandle& sandbox, const std::string& kind = {})
    {
        source.id = make_snapshot_id(system_clock());
        BERTH_TRY(source.directory, c_.place().scratch());
        return again(sandbox, kind);
    }
    Status again(const SandboxHandle& sandbox, const std::string& kind = {})
    {
        BERTH_TRY(told, step("a snapshot",
                             c_.await(c_.backend().snapshot(
                                 sandbox, {.id = source.id, .kind = kind, .directory = source.directory}))));
        source.kind = told.kind;
        return {};
    }
    /// Of a sandbox in which commands run. False: such a snapshot is not offered here, which was said.
    Result<bool> take_busy(const SandboxHandle& sandbox)
    {
        auto done = take(sandbox);
        if (done) return true;
        if (done.error().code != Code::Unsupported) return std::unexpected(std::move(done).error());
        source.id.clear();
        return false;
    }
    [[nodiscard]] CreateRequest request() const
    {
        CreateRequest out(c_.spec());
        out.from = source;
        return out;
    }
    [[nodiscard]] Result<SandboxHandle> restore() { return step("restoring", c_.create(request())); }

    SnapshotSource source;
    SnapshotTaken told;

private:
    Context& c_;
};

} // namespace berth::conformance
