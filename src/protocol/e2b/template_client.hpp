#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/e2b/template.hpp"

/// Templates from the other side: what a client sends, and what it is told.
namespace berth::e2b {

/// The body of POST /v3/templates.
[[nodiscard]] std::string new_template_body(const NewTemplate& wish);

struct RegisteredTemplate {
    std::string id;
    std::string build;
};
[[nodiscard]] Result<RegisteredTemplate> read_registered(std::string_view text);

/// The body of POST /v2/templates/{id}/builds/{build}.
[[nodiscard]] std::string build_start_body(const BuildStart& start, bool force);

/// Where the files of a COPY are to be put.
struct FilesLink {
    bool present = false; ///< they are there already
    std::string url;
    std::map<std::string, std::string> headers; ///< to be sent with them
};
[[nodiscard]] Result<FilesLink> read_files_link(std::string_view text);

struct BuildStatus {
    std::string state; ///< "waiting", "building", "ready", "error"
    std::vector<BuildLine> lines;
    std::string failure;
    std::string failed_step;
};
[[nodiscard]] Result<BuildStatus> read_build_status(std::string_view text);

/// Letters, digits and '-' alone: an id becomes part of a path.
[[nodiscard]] bool is_template_id(std::string_view id) noexcept;

} // namespace berth::e2b
