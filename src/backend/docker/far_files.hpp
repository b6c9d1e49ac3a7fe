#pragma once

#include <functional>
#include <string>

#include "backend/docker/engine.hpp"
#include "keeping/account.hpp"
#include "scripted/command.hpp"

/// Files of a container by way of its engine alone: the archive API, and small commands that the engine
/// starts.
namespace berth::docker {

/// Unpacks a tar below a directory of the container, which may be stopped.
[[nodiscard]] Status put_archive(const Engine& engine, const std::string& container, const std::string& path,
                                 const std::string& archive);
/// A regular file of at most 1 MiB; NotFound when there is none, or when a link lies there.
[[nodiscard]] Result<std::string> read_small(const Engine& engine, const std::string& container,
                                             const std::string& path);
[[nodiscard]] Result<bool> is_there(const Engine& engine, const std::string& container,
                                    const std::string& path);
/// The directory, and those above it that are missing, belong to `user` where they have to be made.
[[nodiscard]] Status make_directory(const Engine& engine, const std::string& container,
                                    const std::string& path, const keeping::Account& user);

/// The first regular file of a tar. Pure.
[[nodiscard]] Result<std::string> first_file(std::string_view archive);

/// Commands of ours, started by the engine.
class EngineHands final : public scripted::Hands {
public:
    using Resolve = std::function<Result<keeping::Account>(const std::string& user)>;
    EngineHands(const Engine& engine, std::string container, int spool, Resolve resolve)
        : engine_(engine), container_(std::move(container)), spool_(spool), resolve_(std::move(resolve))
    {
    }
    [[nodiscard]] Result<scripted::CommandEnd> run(const scripted::Command& command) override;
    [[nodiscard]] Result<std::string> stage(const std::string& user, const std::string& beside,
                                            const ByteSource& source) override;

private:
    const Engine& engine_;
    std::string container_;
    int spool_; ///< a directory of this machine for what is read twice; borrowed
    Resolve resolve_;
};

} // namespace berth::docker
