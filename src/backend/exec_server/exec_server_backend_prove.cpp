// An exec-server is trusted to hold what it is asked to; this is where that trust is tested. Nothing here
// looks at what the server says of itself (its sandboxType is the same whether it held anything or not): the
// probes of `policy prove` run there once for each policy, in directories made for it, and what can be done
// is believed.

#include <arpa/inet.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

#include "backend/exec_server/exec_server_backend.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "prove/prober_image.hpp"
#include "prove/prove.hpp"

namespace berth::exec_server {

namespace {

using namespace std::chrono_literals;

constexpr auto kBreath = 20ms;
constexpr auto kForgotten = 30min; ///< longer than any proof
constexpr std::string_view kTrial = ".trial-";
constexpr const char* kTrialMark = "trial";
constexpr const char* kKept = ".berth-kept"; ///< a protected name that no server knows by itself

std::int64_t seconds_now()
{
    return std::chrono::duration_cast<std::chrono::seconds>(system_clock().now().time_since_epoch()).count();
}

bool forgotten(std::string_view since)
{
    const auto at = parse_int(since, 0, INT64_MAX, "time");
    return at && *at + std::chrono::seconds(kForgotten).count() < seconds_now();
}

/// An address as the prober takes it; empty for a name, which nobody inside could look up.
std::string literal(const std::string& host)
{
    in_addr four{};
    in6_addr six{};
    const bool is =
        ::inet_pton(AF_INET, host.c_str(), &four) == 1 || ::inet_pton(AF_INET6, host.c_str(), &six) == 1;
    return is ? host : std::string{};
}

/// Whether a probe decides. What a server refuses beside what it is asked to is its own affair with the
/// network: Codex's forbids every socket.
bool decides(const prove::Tried& one)
{
    return one.must == prove::Must::Fail || !one.rule.starts_with("network ");
}

Status judge(prove::Receipt receipt)
{
    std::erase_if(receipt.probes, [](const auto& one) { return !decides(one); });
    if (receipt.held()) return {};
    return fail(
        Code::Unsupported,
        "this exec-server does not hold what it is asked to: {}; a policy without that rule may be had "
        "there, or full-access with --net host, which asks for nothing",
        receipt.failure());
}

} // namespace

/// The server as it shows itself, the place below which sandboxes lie, and what they are asked to hold.
Result<std::string> ExecServerBackend::proof_key(const policy::Policy& policy, const policy::Policy& around)
{
    BERTH_TRY(auto* const server, this->server());
    BERTH_TRY(const auto id, ground_->id());
    std::string all = fmt::format("{}\n{}\n{}\n", server->config().place.text(),
                                  server->config().target.substr(0, server->config().target.find('?')), id);
    for (const std::string_view member : {"executorVersion", "providerId"}) {
        BERTH_TRY(const auto told, server->told_text(member));
        all += told + "\n";
    }
    const bool private_root = around.files.empty() && !unconfined(around);
    static const std::string prober = sha256_hex(prove::prober_bytes()); // another one tries other things
    all += fmt::format("{}\n{}\n{}", prove::policy_hash(policy), private_root, prober);
    const auto key = sha256_hex(all).substr(0, 32);
    proofs_.recall(key);
    return key;
}

Task<Status> ExecServerBackend::attest(std::string key, policy::Policy policy, policy::Policy around)
{
    while (!proofs_.begin(key)) {
        boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, kBreath);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
    std::optional<Status> outcome = proofs_.known(key);
    const ScopeExit ended([&] { proofs_.end(key, outcome); }); // also where nobody waits any more
    if (outcome) co_return *outcome;
    outcome = co_await try_out(std::move(policy), std::move(around));
    if (*outcome) co_await pool_.run([&] { proofs_.note(key); });
    co_return *outcome;
}

Task<Status> ExecServerBackend::try_out(policy::Policy policy, policy::Policy around)
{
    if (!policy.protected_names.empty()) policy.protected_names.insert(policy.protected_names.begin(), kKept);
    BERTH_CO_TRY(const auto trial, co_await pool_.call([&] { return begin_trial(policy, around); }));
    const SandboxHandle handle{.sandbox = trial.native, .native = trial.native};
    const prove::Wish wish{.sandbox = trial.native, .generation = 1, .data = data_};
    auto receipt = co_await prove::prove(*this, handle, trial.record.spec, wish);
    co_await pool_.run([&] { end_trial(trial); });
    if (!receipt)
        co_return std::unexpected(
            std::move(receipt).error().while_doing("trying out what the exec-server holds"));
    co_return judge(*std::move(receipt));
}

/// Directories there that no scan finds, since they are nobody's sandbox, with something to be kept.
Result<ExecServerBackend::Instance> ExecServerBackend::begin_trial(const policy::Policy& policy,
                                                                   const policy::Policy& around)
{
    BERTH_TRY(auto* const server, this->server());
    BERTH_TRY(const auto root, ground_->root());
    BERTH_TRY(const auto relay, ground_->relay());
    sweep_trials(*server, root);
    Instance out;
    out.native = make_sandbox_id(system_clock());
    out.layout = layout_of(root, fmt::format("{}{}-{}", kTrial, seconds_now(), random_hex(8)), relay);
    out.record.spec.id = out.native;
    out.record.spec.policy = policy;
    out.record.spec.user = "user";
    out.record.made = true;
    out.around = around;
    out.trial = random_hex(16);
    const auto own = confine_own(root);
    auto made = [&]() -> Status {
        const std::string sub = out.layout.work + "/sub";
        std::vector<std::string> directories{out.layout.own, out.layout.work, out.layout.tmp};
        if (!policy.protected_names.empty())
            for (const auto& one : {out.layout.work + "/" + kKept, sub, sub + "/" + kKept})
                directories.push_back(one);
        for (const auto& one : directories) {
            BERTH_CHECK(server->make_directory(one, own));
            if (one.ends_with(kKept)) BERTH_CHECK(server->write_text(one + "/file", own, out.trial));
        }
        BERTH_CHECK(server->write_text(out.layout.own + "/secret", own, out.trial));
        BERTH_TRY(const auto directory, state_.make_instance(out.native));
        return replace_file_at(directory.get(), kTrialMark, std::to_string(seconds_now()));
    }();
    if (!made) {
        end_trial(out);
        return std::unexpected(std::move(made).error());
    }
    const std::scoped_lock lock(trials_mutex_);
    trials_[out.native] = out;
    return out;
}

void ExecServerBackend::end_trial(const Instance& trial)
{
    {
        const std::scoped_lock lock(trials_mutex_);
        trials_.erase(trial.native);
    }
    execs_.end_all(trial.native, {});
    execs_.let_go(trial.native);
    (void)server_->remove(trial.layout.own, confine_own(trial.layout.root));
    (void)state_.remove_instance(trial.native);
}

/// What those left who were killed in a trial.
void ExecServerBackend::sweep_trials(Server& server, const std::string& root)
{
    const auto own = confine_own(root);
    for (const auto& name : server.list(root, own).value_or(std::vector<std::string>{})) {
        if (!name.starts_with(kTrial)) continue;
        const auto since = name.substr(kTrial.size(), name.rfind('-') - kTrial.size());
        if (forgotten(since)) (void)server.remove(fmt::format("{}/{}", root, name), own);
    }
    const auto directory = state_.directory();
    if (!directory) return;
    for (const auto& name : list_names(directory->get()).value_or(std::vector<std::string>{})) {
        if (!keeping::is_native(name)) continue;
        const auto since = read_file_at(directory->get(), name + "/" + kTrialMark, 64_B);
        if (since && forgotten(*since)) (void)state_.remove_instance(name);
    }
}

Task<Result<Terrain>> ExecServerBackend::terrain(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](const Instance& instance) -> Result<Terrain> {
        BERTH_TRY(const auto relay, ground_->relay());
        const auto& layout = instance.layout;
        const auto& place = server_->config().place;
        Terrain out;
        out.workspaces = {layout.work};
        out.tmpdirs = {"/tmp"}; // the one that the protocol has a word for and everybody has
        out.shown = {relay, layout.work};
        out.temporary = layout.tmp;
        out.whole_machine = true;
        out.cut_by_namespace = true;
        out.host = literal(place.host);
        out.port = place.port;
        if (instance.trial.empty()) return out;
        out.ours_alone = true;
        out.secret = layout.own + "/secret";
        out.word = instance.trial;
        return out;
    });
}

} // namespace berth::exec_server
