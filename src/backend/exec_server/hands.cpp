#include "backend/exec_server/hands.hpp"

#include "base/ids.hpp"

namespace berth::exec_server {

Result<scripted::CommandEnd> ServerHands::run(const scripted::Command& command)
{
    return server_.run(command, confines_, cwd_);
}

Result<std::string> ServerHands::stage(const std::string&, const std::string& beside,
                                       const ByteSource& source)
{
    // Beside what it is for: who may not write there must not write at all.
    std::string path = beside.substr(0, beside.rfind('/') + 1) + ".berth-" + random_hex(16);
    BERTH_CHECK(server_.write_file(path, confines_, source));
    return path;
}

} // namespace berth::exec_server
