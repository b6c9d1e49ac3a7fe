#include "backend/e2b/hands.hpp"

#include "base/ids.hpp"

namespace berth::e2b_client {

Result<CommandEnd> DaemonHands::run(const Command& command)
{
    return cloud_.with(instance_, [&](const Session& session) -> Result<CommandEnd> {
        return run_command(cloud_.envd(), session, command);
    });
}

Result<std::string> DaemonHands::stage(const std::string& user, const std::string&, const ByteSource& source)
{
    std::string path = "/tmp/.berth-" + random_hex(16);
    BERTH_CHECK(cloud_.once(instance_, [&](const Session& session) {
        return cloud_.envd().upload(session, path, user, source);
    }));
    return path;
}

} // namespace berth::e2b_client
