// The execs of a sandbox. Their logs lie on this machine, written by whichever process has the session.

#include "backend/exec_server/exec_server_backend.hpp"
#include "backend/exec_server/holdings.hpp"
#include "core/exec_programs.hpp"

namespace berth::exec_server {

namespace {

const TakesPrograms kTakesPrograms("exec-server");

constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

} // namespace

std::string there(const Layout& layout, const std::string& path)
{
    const std::string home = policy::Roots{}.home;
    if (path == home) return layout.work;
    return path.starts_with(home + "/") ? layout.work + path.substr(home.size()) : path;
}

Task<Status> ExecServerBackend::exec(SandboxHandle sandbox, ExecSpec spec)
{
    std::string key; // of a proof that is not there
    Instance found;
    const auto begun = co_await with(sandbox, [&](const Instance& instance) -> Status {
        BERTH_CHECK(validate(spec));
        if (!spec.user.empty() && spec.user != instance.record.spec.user)
            return unsupported(Operation::Users, name());
        const auto& policy = spec.policy ? *spec.policy : instance.record.spec.policy;
        if (instance.trial.empty() && !(unconfined(policy) && unconfined(instance.around))) {
            BERTH_TRY(key, proof_key(policy, instance.around));
            const auto known = proofs_.known(key);
            if (known && !*known) return *known;
            if (known) key.clear();
        }
        if (key.empty()) return begin_exec(instance, spec);
        if (spec.policy) BERTH_CHECK(admit_narrower(instance, *spec.policy));
        found = instance;
        return {};
    });
    if (!begun || key.empty()) co_return begun;
    const auto policy = spec.policy ? *spec.policy : found.record.spec.policy;
    BERTH_CO_CHECK(co_await attest(key, policy, found.around));
    co_return co_await pool_.call([&] { return begin_exec(found, spec); });
}

Status ExecServerBackend::admit_narrower(const Instance& instance, const policy::Policy& policy)
{
    auto narrowed = instance.record.spec;
    BERTH_CHECK(policy::check_narrower(policy, narrowed.policy, roots_of(instance.layout)));
    BERTH_TRY([[maybe_unused]] const auto confines, confine(policy, instance.around, instance.layout));
    narrowed.policy = policy;
    return admit(narrowed);
}

Status ExecServerBackend::begin_exec(const Instance& instance, ExecSpec spec)
{
    const auto& sandbox = instance.record.spec;
    BERTH_TRY(const auto relay, ground_->relay());
    auto layout = instance.layout;
    layout.relay = relay;
    if (spec.policy) BERTH_CHECK(admit_narrower(instance, *spec.policy));
    const auto& policy = spec.policy ? *spec.policy : sandbox.policy;
    BERTH_TRY(const auto deeper, find_deeper(*server_, policy, instance.around, layout));
    BERTH_TRY(const auto confines, confine(policy, instance.around, layout, deeper));
    if (const int image = program_of(spec.id); image >= 0) {
        BERTH_TRY(spec.argv.front(), ground_->program(image));
    }
    auto env = sandbox.env;
    for (const auto& [name, value] : spec.env) env[name] = value;
    env.try_emplace("PATH", kPath);
    env.try_emplace("HOME", layout.work);
    env.try_emplace("USER", sandbox.user);
    if (instance.around.files.empty()) env.try_emplace("TMPDIR", layout.tmp);
    if (spec.terminal) env.try_emplace("TERM", "xterm-256color");
    std::string cwd = spec.cwd.empty() ? sandbox.workdir : spec.cwd;
    cwd = cwd.empty() ? layout.work : there(layout, cwd);

    std::vector<std::string> words;
    for (const auto& [name, value] : env) words.push_back(fmt::format("{}={}", name, value));

    spec.user = sandbox.user;
    // A sandbox may have been made from another machine.
    BERTH_TRY([[maybe_unused]] const auto directory, state_.make_instance(instance.native));
    return execs_.begin(instance.native, spec,
                        [&](keeping::RelayedWish wish) -> Result<keeping::RelayedExecs::ExecPtr> {
                            auto one = std::make_shared<RunningExec>(server_->config(), std::move(wish));
                            BERTH_CHECK(one->start(spec, cwd, layout, confines, words));
                            return one;
                        });
}

Task<Result<std::vector<ExecEvent>>> ExecServerBackend::read_events(SandboxHandle sandbox, std::string exec,
                                                                    std::uint64_t from, SteadyTime until)
{
    BERTH_CO_CHECK(keeping::check_native(sandbox.native));
    co_return co_await execs_.read_events(sandbox.native, std::move(exec), from, until);
}

Task<Result<std::optional<Ended>>> ExecServerBackend::wait(SandboxHandle sandbox, std::string exec,
                                                           SteadyTime until)
{
    BERTH_CO_CHECK(keeping::check_native(sandbox.native));
    co_return co_await execs_.wait(sandbox.native, std::move(exec), until);
}

Task<Status> ExecServerBackend::signal(SandboxHandle sandbox, std::string exec, int signo)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, execs_.take(native, exec));
        return running->signal(signo);
    });
}

Task<Status> ExecServerBackend::kill(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.kill(native, exec); });
}

Task<Result<std::size_t>> ExecServerBackend::write_input(SandboxHandle sandbox, std::string exec,
                                                         std::uint64_t write_id, std::string bytes)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Result<std::size_t> {
        BERTH_TRY(const auto running, execs_.take_input(native, exec));
        return running->write(write_id, bytes);
    });
}

Task<Status> ExecServerBackend::close_input(SandboxHandle sandbox, std::string exec, std::uint64_t)
{
    co_return co_await here(sandbox, [&](const std::string& native) -> Status {
        BERTH_TRY(const auto running, execs_.take_input(native, exec));
        return running->close_input();
    });
}

Task<Status> ExecServerBackend::resize(SandboxHandle sandbox, std::string exec, TerminalSize size)
{
    co_return co_await here(sandbox,
                            [&](const std::string& native) { return execs_.resize(native, exec, size); });
}

Task<Result<std::vector<ExecInfo>>> ExecServerBackend::execs(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<std::vector<ExecInfo>> {
        const auto directory = state_.instance(instance.native);
        if (!directory && directory.error().code == Code::NotFound) return std::vector<ExecInfo>{};
        return execs_.list(instance.native);
    });
}

Task<Status> ExecServerBackend::settle_exec(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.settle(native, exec); });
}

Task<Result<int>> ExecServerBackend::exec_pid(SandboxHandle sandbox, std::string exec)
{
    co_return co_await here(sandbox, [&](const std::string& native) { return execs_.pid(native, exec); });
}

} // namespace berth::exec_server
