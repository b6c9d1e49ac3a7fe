#pragma once

#include <list>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/asio/cancellation_signal.hpp>

#include "base/json_reader.hpp"
#include "lifecycle/proving.hpp"
#include "policy/policy.hpp"
#include "server/gate/face.hpp"
#include "server/http/router.hpp"
#include "server/own/in_use.hpp"

namespace berth::own {

/// One request to the API, of a tenant that is known.
struct Call {
    http::Exchange& exchange;
    std::string tenant;
    http::Parameters parameters;
    bool by_bearer = false;            ///< the key came as Authorization
    std::optional<InUse::Hold> hold{}; ///< its sandbox is not idle meanwhile
};

using Answer = Result<http::Response>;

/// The member "policy": a preset's name or a document; without it what everybody has.
[[nodiscard]] Result<policy::Policy> read_policy(const json::Reader& reader);

/// The routes and what answers them. A sandbox belongs to the tenant its label names; one without a label,
/// made on the command line, to the default tenant.
class Api {
public:
    explicit Api(gate::Ground& ground);

    Task<void> answer(http::Exchange& exchange);
    /// The router's own table as a document.
    [[nodiscard]] json::Object describe() const;
    /// Streams and waits end.
    void leave();

private:
    using Work = Task<Answer> (Api::*)(Call&);
    /// What of a call is in the description. Shapes by their names; "bytes" and "tar" are themselves.
    struct Words {
        std::string body{};   ///< what it takes
        std::string answer{}; ///< what it gives; empty: nothing, or whatever a program inside says
        std::string events{}; ///< what each event of a stream is
        std::string query{};  ///< parameters, with '!' where there must be one: "path! user"
    };
    struct Handler {
        Work work;
        std::string summary;
        std::vector<std::string> answers; ///< the statuses of success
        Words words;
    };

    // sandbox_calls.cpp
    Task<Answer> create(Call& call);
    Task<Answer> list(Call& call);
    Task<Answer> get(Call& call);
    Task<Answer> destroy(Call& call);
    Task<Answer> start(Call& call);
    Task<Answer> stop(Call& call);
    Task<Answer> pause(Call& call);
    Task<Answer> resume(Call& call);
    Task<Answer> fork(Call& call);
    Task<Answer> take_snapshot(Call& call);
    Task<Answer> prove(Call& call);
    Task<Answer> receipts(Call& call);
    Task<Answer> list_snapshots(Call& call);
    Task<Answer> get_snapshot(Call& call);
    Task<Answer> restore(Call& call);
    Task<Answer> remove_snapshot(Call& call);
    // event_calls.cpp
    Task<Answer> events(Call& call);
    Task<Answer> follow_events(Call& call, LedgerQuery query);
    Task<Result<std::vector<LedgerEvent>>> own_events(const std::string& tenant, LedgerQuery& query,
                                                      std::map<std::string, bool>& ours, bool& more);
    // policy_calls.cpp
    Task<Answer> list_policies(Call& call);
    Task<Answer> show_policy(Call& call);
    Task<Answer> check_policy(Call& call);
    Task<Answer> explain_policy(Call& call);
    Task<Answer> sandbox_policy(Call& call);
    // port_calls.cpp
    Task<Answer> reach_port(Call& call);
    // exec_calls.cpp
    Task<Answer> start_exec(Call& call);
    Task<Answer> list_execs(Call& call);
    Task<Answer> get_exec(Call& call);
    Task<Answer> exec_events(Call& call);
    Task<Answer> write_input(Call& call);
    Task<Answer> close_input(Call& call);
    Task<Answer> send_signal(Call& call);
    Task<Answer> kill_exec(Call& call);
    Task<Answer> resize(Call& call);
    Task<Result<ExecRecord>> exec_of(const Call& call, const SandboxRecord& record);
    /// In charge of an exec's timeout and of recording its end.
    Task<void> attend(SandboxRecord record, ExecSpec spec);
    Task<Answer> stream_exec(Call& call); // stream_calls.cpp
    Task<Answer> yield_exec(Call& call);  // yield_calls.cpp
    // file_calls.cpp
    Task<Answer> read_file(Call& call);
    Task<Answer> write_file(Call& call);
    Task<Answer> remove_file(Call& call);
    Task<Answer> list_files(Call& call);
    Task<Answer> stat_file(Call& call);
    Task<Answer> make_dir(Call& call);
    Task<Answer> read_tree(Call& call);
    Task<Answer> write_tree(Call& call);
    Task<Result<UniqueFd>> spooled(Call& call);
    Task<Status> send_file(http::Exchange& exchange, int file, std::string_view type);
    // openapi.cpp
    Task<Answer> describe_all(Call& call);
    static json::Object describe_one(const http::Router<Handler>::Route& route);

    /// The tenant's own sandbox that the path names; NotFound for everybody else's.
    Task<Result<SandboxRecord>> record_of(const Call& call);
    // use_calls.cpp
    /// The same, made usable. What is said to run is not looked at: in() does where that was wrong. An answer
    /// has the outcome in its head, where it is not "attached".
    Task<Result<Acquired>> usable(Call& call);
    /// Does the work in it; once more where its backend says that it is gone, or does not run, and what it
    /// took to bring it back is then in `used`.
    template <class F>
    auto in(Call& call, Acquired& used, F work) -> std::invoke_result_t<F, Backend&, const SandboxRecord&>;
    /// Whether `why` is because of that, and it is back.
    Task<Result<bool>> brought_back(Call& call, Acquired& used, Error why);
    Task<void> mind_use();
    /// Runs it beside the requests, until it ends or we leave.
    void spawn(const boost::asio::any_io_executor& loop, Task<void> work);
    Task<Result<SnapshotRecord>> snapshot_of(const Call& call);
    Task<Result<json::Value>> body_of(Call& call);
    [[nodiscard]] Lifecycle& lifecycle() { return ground_.berth.lifecycle(); }
    [[nodiscard]] Proving proving() { return {lifecycle(), ground_.pool, ground_.berth.data()}; }

    static constexpr std::size_t kBodyLimit = std::size_t{4} << 20;

    gate::Ground& ground_;
    http::Router<Handler> router_;
    std::list<boost::asio::cancellation_signal> attended_;
    InUse in_use_;
    bool minding_ = false; ///< somebody minds in_use_
    bool leaving_ = false;
};

template <class F>
auto Api::in(Call& call, Acquired& used, F work) -> std::invoke_result_t<F, Backend&, const SandboxRecord&>
{
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(used.record.backend));
    auto done = co_await work(*where, used.record);
    if (done) co_return done;
    BERTH_CO_TRY(const bool back, co_await brought_back(call, used, done.error()));
    if (back) co_return co_await work(*where, used.record);
    co_return done;
}

} // namespace berth::own
