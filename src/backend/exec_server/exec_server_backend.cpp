// The exec-server backend as every other part of berth sees it: making and finding sandboxes.

#include "backend/exec_server/exec_server_backend.hpp"

#include "backend/exec_server/holdings.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeping/exec_logs.hpp"

namespace berth::exec_server {

namespace {

constexpr const char* kMadeAt = "made-at";

Found gone(const SandboxHandle& sandbox)
{
    Found out;
    out.sandbox = sandbox;
    out.health = Health::Gone;
    out.state = State::Lost;
    return out;
}

Found found_of(const std::string& native, const Record& record)
{
    Found out;
    out.sandbox = {.sandbox = std::string(keeping::sandbox_of(native)), .native = native};
    out.health = Health::Healthy;
    out.state = record.made ? State::Running : State::Creating;
    out.labels = record.labels;
    return out;
}

} // namespace

Result<std::unique_ptr<Backend>> ExecServerBackend::open(const BackendOptions& options)
{
    if (options.pool == nullptr)
        return fail(Code::Invalid, "backend exec-server needs a pool for blocking work");
    return std::unique_ptr<Backend>(
        new ExecServerBackend(options.state_path, *options.pool, read_config(config_environment())));
}

ExecServerBackend::ExecServerBackend(std::string data, BlockingPool& pool, Result<Config> config)
    : data_(std::move(data)), state_(data_, "exec-server-client", keeping::check_native), pool_(pool),
      execs_(
          pool, [this](const std::string& native) { return state_.instance(native); },
          [this](keeping::RelayedWish wish) -> Result<keeping::RelayedExecs::ExecPtr> {
              BERTH_TRY(auto* const server, this->server());
              auto one = std::make_shared<RunningExec>(server->config(), std::move(wish));
              BERTH_CHECK(one->go_on());
              return one;
          }),
      proofs_(state_)
{
    if (!config) {
        unusable_ = std::unexpected(std::move(config).error());
        return;
    }
    server_ = std::make_unique<Server>(*std::move(config));
    ground_ = std::make_unique<Ground>(*server_);
}

ExecServerBackend::~ExecServerBackend() = default;

Result<Server*> ExecServerBackend::server()
{
    if (!unusable_) return std::unexpected(unusable_.error());
    return server_.get();
}

Capabilities ExecServerBackend::capabilities() const
{
    Capabilities out;
    out.operations = {Operation::Pty, Operation::ExecPolicy, Operation::Archive};
    out.holds = hold();
    return out;
}

Result<ExecServerBackend::Instance> ExecServerBackend::find(const std::string& native)
{
    {
        const std::scoped_lock lock(trials_mutex_);
        if (const auto trial = trials_.find(native); trial != trials_.end()) return trial->second;
    }
    BERTH_TRY(auto* const server, this->server());
    BERTH_TRY(const auto root, ground_->root());
    Instance out;
    out.native = native;
    out.layout = layout_of(root, native, {});
    auto text =
        server->read_file(fmt::format("{}/{}", out.layout.own, kRecordFile), confine_own(root), kMostRecord);
    if (!text && text.error().code == Code::NotFound) return std::unexpected(not_there(native));
    if (!text) return std::unexpected(std::move(text).error());
    auto record = read_record(*text);
    if (!record)
        return std::unexpected(std::move(record).error().while_doing("reading the record of " + native));
    if (record->spec.id != keeping::sandbox_of(native))
        return fail(Code::Invalid, "the record of {} is another sandbox's", native);
    out.record = *std::move(record);
    out.around = out.record.spec.policy;
    return out;
}

/// A sandbox that was made elsewhere is not gone because another server does not have it.
Error ExecServerBackend::not_there(const std::string& native)
{
    const auto gone = fail(Code::NotFound, "no sandbox {}", native).error();
    const auto directory = state_.instance(native);
    if (!directory) return gone;
    const auto made_at = berth::read_file_at(directory->get(), kMadeAt);
    if (!made_at) return gone;
    const auto here = ground_->id();
    if (!here) return here.error();
    if (*here == *made_at) return gone;
    return fail(Code::Unavailable,
                "sandbox {} was made at another exec-server or below another root than this one; check "
                "BERTH_EXEC_SERVER_URL and BERTH_EXEC_SERVER_ROOT",
                native)
        .error();
}

Task<Result<SandboxHandle>> ExecServerBackend::create(CreateRequest request)
{
    const auto& policy = request.spec.policy;
    std::string key;
    BERTH_CO_TRY(const bool there, co_await pool_.call([&]() -> Result<bool> {
        BERTH_TRY(const bool found, look(request));
        if (found || unconfined(policy)) return found;
        BERTH_TRY(key, proof_key(policy, policy));
        return false;
    }));
    if (!there && !key.empty()) BERTH_CO_CHECK(co_await attest(key, policy, policy));
    co_return co_await pool_.call([&] { return make(*server_, request); });
}

Result<bool> ExecServerBackend::look(const CreateRequest& request)
{
    const auto& spec = request.spec;
    // What can never be is refused before anybody is asked.
    BERTH_CHECK(validate(spec));
    BERTH_CHECK(admit(spec));
    if (request.from)
        return fail(Code::Unsupported, "backend exec-server cannot start from a snapshot of kind '{}'",
                    printable(request.from->kind, 60));
    BERTH_TRY([[maybe_unused]] auto* const server, this->server());
    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_CHECK(keeping::check_native(native));
    BERTH_TRY(const auto root, ground_->root());
    const auto there = find(native);
    if (!there && there.error().code != Code::NotFound) return std::unexpected(there.error());
    if (there && there->record.made) return true; // with this specification or another
    if (!spec.hostname.empty())
        return fail(Code::Unsupported, "host name {}: an exec-server's sandboxes have none of their own",
                    printable(spec.hostname, 60));
    BERTH_TRY([[maybe_unused]] const auto confines,
              confine(spec.policy, spec.policy, layout_of(root, native, {})));
    return false;
}

Result<SandboxHandle> ExecServerBackend::make(Server& server, const CreateRequest& request)
{
    const auto& spec = request.spec;
    const std::string native = keeping::native_name(spec.id, request.labels.generation);
    BERTH_TRY(const auto making, state_.lock_making(native));
    BERTH_TRY(const auto root, ground_->root());
    const SandboxHandle handle{.sandbox = spec.id, .native = native};
    const auto there = find(native);
    if (there && there->record.made) {
        if (there->record.spec != spec)
            return fail(Code::Conflict, "sandbox {} exists with another specification", native);
        return handle;
    }
    if (!there && there.error().code != Code::NotFound) return std::unexpected(there.error());
    BERTH_TRY(const auto relay, ground_->relay());
    const auto layout = layout_of(root, native, relay);
    BERTH_TRY(const auto id, ground_->id());
    BERTH_TRY(const auto directory, state_.make_instance(native));
    BERTH_CHECK(replace_file_at(directory.get(), kMadeAt, id));
    auto made = furnish(server, layout, {.spec = spec, .labels = request.labels, .made = false});
    if (made) return handle;
    (void)server.remove(layout.own, confine_own(root));
    (void)state_.remove_instance(native);
    return std::unexpected(std::move(made).error());
}

/// The record comes first and last: whoever is killed in between has left something that says whose it is.
Status ExecServerBackend::furnish(Server& server, const Layout& layout, Record record)
{
    const auto own = confine_own(layout.root);
    const auto directory = [&](const std::string& path) -> Status {
        auto made = server.make_directory(path, own);
        if (made) return {};
        const auto there = server.exists(path, own);
        if (there && *there) return {}; // of a maker that was killed
        return made;
    };
    const std::string file = fmt::format("{}/{}", layout.own, kRecordFile);
    BERTH_CHECK(directory(layout.own));
    BERTH_CHECK(server.write_text(file, own, write_record(record)));
    hooks::kill_point("exec_server.create.begun");
    BERTH_CHECK(directory(layout.work));
    BERTH_CHECK(directory(layout.tmp));
    const auto& spec = record.spec;
    if (!spec.workdir.empty()) {
        BERTH_TRY(const auto confines, confine(spec.policy, spec.policy, layout));
        const scripted::Command command{.script = "d \"$1\"; [ -d \"$v\" ] || mkdir -p -- \"$v\"",
                                        .arguments = {spec.workdir},
                                        .user = {},
                                        .out = {}};
        BERTH_TRY(const auto end, server.run(command, confines, layout.work));
        if (!end.status.success())
            return std::unexpected(scripted::error_of_words(end.err, "working directory"));
    }
    hooks::kill_point("exec_server.create.furnished");
    record.made = true;
    return server.write_text(file, own, write_record(record));
}

Task<Status> ExecServerBackend::destroy(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Status {
        BERTH_CHECK(keeping::check_native(sandbox.native));
        BERTH_TRY(auto* const server, this->server());
        const auto there = find(sandbox.native);
        if (!there && there.error().code != Code::NotFound && there.error().code != Code::Invalid)
            return std::unexpected(there.error());
        // Whatever still runs of it, as far as it was started from this machine.
        execs_.end_all(sandbox.native, {});
        execs_.let_go(sandbox.native);
        BERTH_CHECK(remove(*server, sandbox.native));
        return state_.remove_instance(sandbox.native);
    });
}

Status ExecServerBackend::remove(Server& server, const std::string& native)
{
    BERTH_TRY(const auto root, ground_->root());
    const auto own = confine_own(root);
    const auto layout = layout_of(root, native, {});
    BERTH_TRY(const bool there, server.exists(layout.own, own));
    if (!there) return {};
    // The record goes last.
    for (const auto& part : {layout.work, layout.tmp, layout.own}) {
        auto gone = server.remove(part, own);
        if (gone) continue;
        // Held to this sandbox: what others have made must not stand in its way.
        const scripted::Command force{
            .script = "d \"$1\"; chmod -R u+rwX -- \"$v\" 2>/dev/null; exec rm -rf -- \"$v\"",
            .arguments = {part},
            .user = {},
            .out = {}};
        BERTH_TRY(const auto end, server.run(force, confine_own(layout.own), layout.own));
        if (end.status.success()) continue;
        // A clone has a .git, which berth's own server keeps, however deep it lies: the deepest goes first.
        const scripted::Command look{.script =
                                         "d \"$1\"; exec find \"$v\" -depth \\( -name .git -o -name .agents "
                                         "-o -name .codex -o -name .aws \\) -print0",
                                     .arguments = {part},
                                     .user = {},
                                     .out = {}};
        BERTH_TRY(const auto found, server.run(look, confine_own(layout.own), layout.own));
        for (const auto& path : split(found.out, '\0'))
            if (path.starts_with(layout.own + "/")) (void)server.remove(path, confine_protected(path));
        BERTH_CHECK(server.remove(part, own));
    }
    return {};
}

Task<Result<std::vector<Found>>> ExecServerBackend::scan()
{
    co_return co_await pool_.call([&]() -> Result<std::vector<Found>> {
        // Who never used it has none: nobody's server is asked because its address is somewhere.
        if (!state_.used()) return std::vector<Found>{};
        BERTH_TRY(auto* const server, this->server());
        BERTH_TRY(const auto root, ground_->root());
        BERTH_TRY(const auto names, server->list(root, confine_own(root)));
        std::vector<Found> out;
        for (const auto& name : names) {
            if (!keeping::is_native(name)) continue;
            const auto instance = find(name);
            if (instance)
                out.push_back(found_of(name, instance->record));
            else if (instance.error().code != Code::NotFound && instance.error().code != Code::Invalid)
                return std::unexpected(instance.error());
        }
        return out;
    });
}

Task<Result<Found>> ExecServerBackend::inspect(SandboxHandle sandbox)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Result<Found> {
        const auto instance = find(native);
        if (!instance && instance.error().code == Code::NotFound) return gone(sandbox);
        if (!instance) return std::unexpected(instance.error());
        return found_of(native, instance->record);
    });
}

} // namespace berth::exec_server
