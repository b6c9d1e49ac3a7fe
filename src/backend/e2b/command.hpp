#pragma once

#include <string>
#include <vector>

#include "backend/e2b/envd.hpp"
#include "core/exec_spec.hpp"
#include "protocol/e2b/process.hpp"
#include "scripted/command.hpp"

namespace berth::e2b_client {

using scripted::Command;
using scripted::CommandEnd;
using scripted::error_of_words;

[[nodiscard]] Result<CommandEnd> run_command(Envd& envd, const Session& session, const Command& command);

/// How a command is started: as it is, or through a shell that decodes what is no text.
[[nodiscard]] e2b::StartRequest start_of(const ExecSpec& spec, const std::string& workdir);
/// Why it could not be.
[[nodiscard]] Error start_error(const connect::Failure& failure, const ExecSpec& spec);

} // namespace berth::e2b_client
