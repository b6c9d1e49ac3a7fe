#pragma once

#include <map>
#include <memory>
#include <string>

#include "server/codex/place.hpp"
#include "server/codex/process.hpp"

namespace berth::codex {

/// Where a session's news goes while somebody is connected.
class Listener {
public:
    virtual ~Listener() = default;
    virtual void notify(std::string_view method, json::Object params) = 0;
    [[nodiscard]] virtual std::size_t unsent() const noexcept = 0;
    /// Somebody else wants the session: is anybody there?
    virtual void probe() = 0;
};

/// Processes and what is known of them, for as long as a client is there or may come back.
class Session final : public Audience, public std::enable_shared_from_this<Session> {
public:
    Session(std::string id, std::string tenant, std::shared_ptr<Place> place,
            boost::asio::any_io_executor loop);

    [[nodiscard]] const std::string& id() const noexcept { return id_; }
    [[nodiscard]] const std::string& tenant() const noexcept { return tenant_; }
    [[nodiscard]] Place& place() const noexcept { return *place_; }
    [[nodiscard]] Listener* listener() const noexcept { return listener_; }
    void attach(Listener& listener);
    void detach();
    /// When nobody has been there since; nothing while somebody is.
    [[nodiscard]] std::optional<SteadyTime> alone_since() const noexcept { return alone_since_; }
    /// Kills everything; returns when it is gone.
    Task<void> end();

    /// Something was sent: whoever waits for room looks again.
    void flowed() noexcept { flow_.cancel(); }
    /// What ended long enough ago is forgotten.
    void sweep();

    Task<Answer> start(StartParams params);
    [[nodiscard]] std::shared_ptr<Process> find(const std::string& id) const;

    void tell(std::string_view method, json::Object params) override;
    Task<void> room() override;

private:
    std::string id_;
    std::string tenant_;
    std::shared_ptr<Place> place_;
    boost::asio::any_io_executor loop_;
    Listener* listener_ = nullptr;
    std::optional<SteadyTime> alone_since_;
    std::size_t told_alone_ = 0; ///< what news nobody heard weighs
    bool over_ = false;
    std::map<std::string, std::shared_ptr<Process>> processes_;
    boost::asio::steady_timer flow_;
};

/// All sessions of a server.
class Sessions {
public:
    explicit Sessions(boost::asio::any_io_executor loop) : loop_(std::move(loop)) {}

    [[nodiscard]] std::shared_ptr<Session> open(const std::string& tenant, std::shared_ptr<Place> place);
    /// Null when the tenant has none of that id any more.
    [[nodiscard]] std::shared_ptr<Session> find(const std::string& id, const std::string& tenant) const;
    /// Ends at once.
    Task<void> close(std::shared_ptr<Session> session);
    /// What is over its time.
    Task<void> sweep();
    Task<void> end();

private:
    boost::asio::any_io_executor loop_;
    std::map<std::string, std::shared_ptr<Session>> sessions_;
};

} // namespace berth::codex
