#pragma once

#include <functional>
#include <string>

#include "backend/docker/container.hpp"
#include "backend/docker/engine.hpp"

namespace berth::docker {

/// Images that were made of a root file system: their name, and a label.
inline constexpr const char* kTemplateRepository = "berth-template";
inline constexpr const char* kTemplateMark = "berth.template";

/// An image the engine has.
struct Image {
    std::string id;   ///< "sha256:…"
    std::string name; ///< as it was asked for
    ImageDefaults defaults;
};

/// NotFound when the engine does not have it.
[[nodiscard]] Result<Image> find_image(const Engine& engine, const std::string& name);

/// The image of a template: found, pulled, imported or loaded. What an engine has no image for is refused.
[[nodiscard]] Result<Image> ensure_image(const Engine& engine, const Template& root,
                                         const MakeProgress& progress = {});

/// From a registry. NotFound when that does not have it.
[[nodiscard]] Status pull_image(const Engine& engine, const std::string& name, const MakeProgress& progress);

/// Images in a tar as `docker save` writes it: the name or id of the last one.
[[nodiscard]] Result<std::string> load_image(const Engine& engine, ByteSource source);

/// The words of a stream of progress documents, one each line: its errors become ours.
class PullReader {
public:
    explicit PullReader(const MakeProgress& progress) : progress_(progress) {}
    [[nodiscard]] Status take(std::string_view bytes);
    /// The error that was told, if one was.
    [[nodiscard]] Status finish();
    /// What `stream` members said, together.
    [[nodiscard]] const std::string& said() const noexcept { return said_; }

private:
    Status line(std::string_view text);
    const MakeProgress& progress_;
    std::string pending_;
    std::string said_;
};

} // namespace berth::docker
