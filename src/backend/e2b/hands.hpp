#pragma once

#include "backend/e2b/cloud.hpp"
#include "backend/e2b/command.hpp"

namespace berth::e2b_client {

/// Commands in one sandbox by its daemon. Its file service is root whoever asks, knows names that are text
/// only, and follows links as it likes; it is used for one thing: to bring large contents to a temporary
/// file.
class DaemonHands final : public scripted::Hands {
public:
    DaemonHands(Cloud& cloud, std::string instance) : cloud_(cloud), instance_(std::move(instance)) {}
    [[nodiscard]] Result<CommandEnd> run(const Command& command) override;
    [[nodiscard]] Result<std::string> stage(const std::string& user, const std::string& beside,
                                            const ByteSource& source) override;

private:
    Cloud& cloud_;
    std::string instance_;
};

} // namespace berth::e2b_client
