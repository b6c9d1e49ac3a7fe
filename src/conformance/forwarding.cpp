#include "conformance/forwarding.hpp"

namespace berth::conformance {

namespace {

class Forwarding final : public Backend {
public:
    Forwarding(std::unique_ptr<Backend> to, std::shared_ptr<std::atomic<bool>> outage)
        : to_(std::move(to)), outage_(std::move(outage))
    {
    }

    std::string_view name() const override { return to_->name(); }
    Capabilities capabilities() const override { return to_->capabilities(); }
    Task<Result<SandboxHandle>> create(CreateRequest r) override { return to_->create(std::move(r)); }
    Task<Status> destroy(SandboxHandle s) override { return to_->destroy(std::move(s)); }
    Task<Result<std::vector<Found>>> scan() override
    {
        if (*outage_) co_return unreachable();
        co_return co_await to_->scan();
    }
    Task<Result<Found>> inspect(SandboxHandle s) override
    {
        if (*outage_) co_return unreachable();
        co_return co_await to_->inspect(std::move(s));
    }
    Task<Status> exec(SandboxHandle s, ExecSpec e) override { return to_->exec(std::move(s), std::move(e)); }
    Task<Result<std::vector<ExecEvent>>> read_events(SandboxHandle s, std::string e, std::uint64_t from,
                                                     SteadyTime t) override
    {
        return to_->read_events(std::move(s), std::move(e), from, t);
    }
    Task<Result<std::optional<Ended>>> wait(SandboxHandle s, std::string e, SteadyTime t) override
    {
        return to_->wait(std::move(s), std::move(e), t);
    }
    Task<Status> signal(SandboxHandle s, std::string e, int n) override
    {
        return to_->signal(std::move(s), std::move(e), n);
    }
    Task<Status> kill(SandboxHandle s, std::string e) override
    {
        return to_->kill(std::move(s), std::move(e));
    }
    Task<Result<std::size_t>> write_input(SandboxHandle s, std::string e, std::uint64_t id,
                                          std::string b) override
    {
        return to_->write_input(std::move(s), std::move(e), id, std::move(b));
    }
    Task<Status> close_input(SandboxHandle s, std::string e, std::uint64_t id) override
    {
        return to_->close_input(std::move(s), std::move(e), id);
    }
    Task<Status> resize(SandboxHandle s, std::string e, TerminalSize z) override
    {
        return to_->resize(std::move(s), std::move(e), z);
    }
    Task<Result<std::vector<ExecInfo>>> execs(SandboxHandle s) override { return to_->execs(std::move(s)); }
    Task<Status> settle_exec(SandboxHandle s, std::string e) override
    {
        return to_->settle_exec(std::move(s), std::move(e));
    }
    Task<Result<std::string>> read_file(SandboxHandle s, FilePath f, Bytes limit) override
    {
        return to_->read_file(std::move(s), std::move(f), limit);
    }
    Task<Status> write_file(SandboxHandle s, FilePath f, std::string b, std::optional<unsigned> mode) override
    {
        return to_->write_file(std::move(s), std::move(f), std::move(b), mode);
    }
    Task<Result<std::vector<FileEntry>>> list_files(SandboxHandle s, FilePath d) override
    {
        return to_->list_files(std::move(s), std::move(d));
    }
    Task<Result<FileEntry>> stat_file(SandboxHandle s, FilePath f) override
    {
        return to_->stat_file(std::move(s), std::move(f));
    }
    Task<Status> make_dir(SandboxHandle s, FilePath d, MakeParents p) override
    {
        return to_->make_dir(std::move(s), std::move(d), p);
    }
    Task<Status> move_file(SandboxHandle s, FilePath f, std::string t) override
    {
        return to_->move_file(std::move(s), std::move(f), std::move(t));
    }
    Task<Status> remove_file(SandboxHandle s, FilePath f, RemoveTree t) override
    {
        return to_->remove_file(std::move(s), std::move(f), t);
    }
    Task<Status> stop(SandboxHandle s, std::chrono::milliseconds g) override
    {
        return to_->stop(std::move(s), g);
    }
    Task<Result<Started>> start(SandboxHandle s) override { return to_->start(std::move(s)); }
    Task<Status> pause(SandboxHandle s) override { return to_->pause(std::move(s)); }
    Task<Status> resume(SandboxHandle s) override { return to_->resume(std::move(s)); }
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle s, SnapshotRequest r) override
    {
        return to_->snapshot(std::move(s), std::move(r));
    }
    Task<Status> drop_snapshot(SnapshotSource s) override { return to_->drop_snapshot(std::move(s)); }
    Task<Status> keep_alive(SandboxHandle s, std::chrono::seconds t) override
    {
        return to_->keep_alive(std::move(s), t);
    }
    Task<Result<SandboxHandle>> attach(std::string native) override { return to_->attach(std::move(native)); }
    Task<Result<std::optional<SandboxHandle>>> adopt(CreateRequest request) override
    {
        return to_->adopt(std::move(request));
    }
    Task<Status> release(SandboxHandle sandbox) override { return to_->release(std::move(sandbox)); }
    Task<Result<Collected>> collect(std::string d, bool dry) override
    {
        return to_->collect(std::move(d), dry);
    }

private:
    static std::unexpected<Error> unreachable()
    {
        return fail(Code::Unavailable, "the backend is out of reach");
    }

    std::unique_ptr<Backend> to_;
    std::shared_ptr<std::atomic<bool>> outage_;
};

} // namespace

std::unique_ptr<Backend> forwarding(std::unique_ptr<Backend> to, std::shared_ptr<std::atomic<bool>> outage)
{
    return std::make_unique<Forwarding>(std::move(to), std::move(outage));
}

} // namespace berth::conformance
