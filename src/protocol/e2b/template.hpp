#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"

/// Templates and their builds, as JSON.
namespace berth::e2b {

inline constexpr std::size_t kMostSteps = 500;
inline constexpr std::size_t kMostTags = 50;

/// POST /v3/templates.
struct NewTemplate {
    std::string name; ///< perhaps with a tag
    std::vector<std::string> tags;
    unsigned cpus = 0; ///< 0: not said
    unsigned memory_mb = 0;
};
[[nodiscard]] Result<NewTemplate> read_new_template(std::string_view text);

struct BuildStep {
    enum class Type { Copy, Run, Env, Workdir, User };
    Type type = Type::Run;
    std::vector<std::string> args; ///< as many as the type has
    std::string files_hash;        ///< of Copy: the archive that was uploaded for it
};
/// "RUN apt-get update": how a log names it.
[[nodiscard]] std::string to_string(const BuildStep& step);

/// POST /v2/templates/{id}/builds/{build}.
struct BuildStart {
    std::string from_image; ///< one of the two, or none
    std::string from_template;
    std::string username; ///< for the registry; may be empty
    std::string password;
    std::vector<BuildStep> steps;
    std::string start_cmd;
    std::string ready_cmd;
};
/// Unsupported: logins that only a cloud's own tools can make.
[[nodiscard]] Result<BuildStart> read_build_start(std::string_view text);

/// POST /templates/tags has "target", DELETE has "name".
struct TagWish {
    std::string name;
    std::vector<std::string> tags;
};
[[nodiscard]] Result<TagWish> read_tags(std::string_view text, std::string_view name_field);

[[nodiscard]] Result<bool> read_public(std::string_view text);

struct BuildLine {
    WallTime time{};
    std::string level = "info";
    std::string message;
    std::string step;
};
[[nodiscard]] json::Object line_json(const BuildLine& line);
[[nodiscard]] Result<BuildLine> read_line(const json::Value& value);

/// 64 hexadecimal digits: what a client calls an archive, and so a file name.
[[nodiscard]] bool is_files_hash(std::string_view text) noexcept;

} // namespace berth::e2b
