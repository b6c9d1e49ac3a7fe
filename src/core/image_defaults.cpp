#include "core/image_defaults.hpp"

#include <fcntl.h>

#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "core/sandbox_spec.hpp"
#include "policy/bind.hpp"

namespace berth {

namespace {

constexpr const char* kFile = "image.json"; ///< its SHA-256, a line's end, the document

Result<UniqueFd> open_directory(const std::string& directory)
{
    UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening the snapshot {}", directory);
    return fd;
}

} // namespace

std::string to_string(const ImageDefaults& asked)
{
    std::vector<std::string> parts, names;
    for (const auto& [name, value] : asked.env) names.push_back(name);
    if (!names.empty()) parts.push_back(fmt::format("ENV {}", fmt::join(names, ", ")));
    if (!asked.workdir.empty()) parts.push_back("WORKDIR " + asked.workdir);
    // The default one is nobody's wish.
    if (!asked.user.empty() && asked.user != "user") parts.push_back("USER " + asked.user);
    return fmt::format("{}", fmt::join(parts, "; "));
}

json::Object to_json(const ImageDefaults& asked)
{
    json::Object env;
    for (const auto& [name, value] : asked.env) env[name] = value;
    return {{"env", std::move(env)}, {"workdir", asked.workdir}, {"user", asked.user}};
}

Result<ImageDefaults> read_image_defaults(const json::Reader& at)
{
    ImageDefaults out;
    BERTH_TRY(const auto env, at.at("env"));
    BERTH_TRY(const auto members, env.members());
    for (const auto& [name, value] : members) {
        BERTH_TRY(out.env[name], value.string());
    }
    BERTH_CHECK(validate_env(out.env));
    BERTH_TRY(const auto user, at.at("user"));
    BERTH_TRY(out.user, user.string());
    BERTH_TRY(const auto workdir, at.at("workdir"));
    BERTH_TRY(const auto path, workdir.string());
    if (path.empty()) return out;
    // Becomes a directory below a root.
    BERTH_TRY(out.workdir, policy::normalise(path));
    return out;
}

Status keep_image_defaults(const std::string& directory, const ImageDefaults& asked)
{
    BERTH_TRY(const auto at, open_directory(directory));
    const std::string text = json::dump(to_json(asked));
    return replace_file_at(at.get(), kFile, sha256_hex(text) + "\n" + text);
}

Result<std::optional<ImageDefaults>> kept_image_defaults(const std::string& directory)
{
    BERTH_TRY(const auto at, open_directory(directory));
    const auto text = read_file_at(at.get(), kFile, 16_MiB);
    if (!text && text.error().code == Code::NotFound) return std::optional<ImageDefaults>{};
    if (!text) return std::unexpected(text.error());
    const auto line = text->find('\n');
    const auto body = line == std::string::npos ? std::string{} : text->substr(line + 1);
    if (text->substr(0, line) != sha256_hex(body))
        return fail(Code::Invalid, "snapshot {} is damaged: {} has another SHA-256 than it says", directory,
                    kFile);
    BERTH_TRY(const auto document, json::parse(body, {.bytes = 16u << 20}));
    BERTH_TRY(auto out, read_image_defaults(json::Reader(document)));
    return std::optional<ImageDefaults>(std::move(out));
}

} // namespace berth
