#pragma once

#include "backend/exec_server/server.hpp"

namespace berth::exec_server {

/// Commands in one sandbox, held to its policy as everything there is.
class ServerHands final : public scripted::Hands {
public:
    ServerHands(Server& server, const Confines& confines, std::string cwd)
        : server_(server), confines_(confines), cwd_(std::move(cwd))
    {
    }
    [[nodiscard]] Result<scripted::CommandEnd> run(const scripted::Command& command) override;
    [[nodiscard]] Result<std::string> stage(const std::string& user, const std::string& beside,
                                            const ByteSource& source) override;

private:
    Server& server_;
    const Confines& confines_;
    std::string cwd_;
};

} // namespace berth::exec_server
