#pragma once

#include <deque>
#include <map>
#include <memory>
#include <stop_token>
#include <string>

#include "protocol/jsonrpc/message.hpp"
#include "server/codex/session.hpp"
#include "server/codex/web_calls.hpp"
#include "server/codex/wire.hpp"

namespace berth::codex {

/// One client: its handshake, its requests, its open files. Requests run beside each other; what it asks of
/// one process keeps its order.
class Connection final : public Listener, public std::enable_shared_from_this<Connection> {
public:
    /// `places` opens where a new session runs.
    Connection(Sessions& sessions, std::string tenant, std::unique_ptr<Wire> wire,
               boost::asio::any_io_executor loop, PlaceMaker places, std::shared_ptr<Web> web);

    /// Until the client leaves or breaks the protocol. The wire is not used afterwards.
    Task<void> run();
    /// Ends it from our side.
    void close() noexcept;

    void notify(std::string_view method, json::Object params) override;
    [[nodiscard]] std::size_t unsent() const noexcept override { return unsent_; }
    void probe() override;

private:
    enum class Stage { New, Initializing, Initialized, Ready };
    struct Handle {
        OpenFile opened;
        OpenParams::Mode mode = OpenParams::Mode::Read;
    };

    /// False: the client broke the protocol.
    bool take(std::string text);
    /// From here on nobody hears us.
    void finish() noexcept;
    Task<void> serve(jsonrpc::Request request);
    Task<Answer> answer(jsonrpc::Request& request);
    Task<Answer> answer_process(const std::string& method, json::Value params);
    Task<Answer> answer_file(const std::string& method, json::Value params);
    Task<Answer> answer_handle(const std::string& method, json::Value params);
    Task<Answer> open_file(OpenParams params);
    /// Waits for its turn, too. `slow`: it may be about a whole tree.
    Task<void> begin_file_call(bool slow);
    void end_file_call(bool slow);
    Task<Answer> initialize(json::Value params);
    Task<Answer> take_up(std::string id);
    Task<Answer> watch(json::Value params);
    Task<Answer> ask_outside(json::Value params);
    Answer discover(const json::Value& params) const;
    void send(std::string message);
    Task<void> write_all();

    Sessions& sessions_;
    std::string tenant_; ///< whose key let it in
    std::unique_ptr<Wire> wire_;
    boost::asio::any_io_executor loop_;
    PlaceMaker places_;
    std::shared_ptr<Web> web_;        ///< null: nobody outside is asked
    std::shared_ptr<WebCalls> calls_; ///< shared with those that are under way
    Stage stage_ = Stage::New;
    std::shared_ptr<Session> session_;
    // Shared with a request that is working with the file while another closes it.
    std::map<std::string, std::shared_ptr<Handle>> handles_;
    std::map<std::string, std::uint64_t> opening_; ///< which of all that were asked for
    std::uint64_t opened_ = 0;
    std::shared_ptr<Watcher> watches_; ///< shared with its own loop
    std::deque<std::string> outgoing_;
    std::size_t unsent_ = 0;
    std::size_t under_way_ = 0;
    std::size_t asked_ = 0;
    std::size_t file_calls_ = 0;
    bool in_a_tree_ = false; ///< a call that may take long is under way
    bool greeting_ = false;  ///< initialize is on its way
    bool writing_ = false;
    bool over_ = false;
    std::stop_source left_; ///< the same, for other threads
    boost::asio::steady_timer changed_;
};

} // namespace berth::codex
