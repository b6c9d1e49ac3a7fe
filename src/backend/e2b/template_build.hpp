#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/e2b/api.hpp"

namespace berth::e2b_client {

/// A template to be built at a server.
struct TemplateWish {
    e2b::NewTemplate what;
    e2b::BuildStart start; ///< each Copy without its hash
    std::string context;   ///< the directory that Copy takes files from
    bool force = false;    ///< nothing that was made before is used again
};

/// Called with each line of the build's log, and with what is done here before it begins.
using BuildListener = std::function<void(const e2b::BuildLine& line)>;

/// Registers it, uploads the files the server has not, and follows the build to its end. A build that fails
/// is Invalid, with the step's number and the server's words.
[[nodiscard]] Result<e2b::RegisteredTemplate> build_template(Api& api, TemplateWish wish,
                                                             const BuildListener& told);

} // namespace berth::e2b_client
