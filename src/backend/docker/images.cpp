#include "backend/docker/images.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include "backend/docker/archived_image.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "image/oci_template.hpp"
#include "image/tree_reader.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::size_t kLongestLine = std::size_t{64} << 10;
constexpr HttpLimits kSlow{.patience = 300s, .body = 32_MiB};

ByteSource bytes_of(std::shared_ptr<UniqueFd> file)
{
    return [file = std::move(file)]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        const ssize_t n = ::read(file->get(), piece.data(), piece.size());
        if (n < 0) return fail_errno("reading a template");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    };
}

Result<ByteSource> open_source(const std::string& path)
{
    auto file = std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!*file) return fail_errno("opening template {}", path);
    return bytes_of(std::move(file));
}

Result<ByteSource> open_tree(const std::string& path)
{
    UniqueFd top(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!top) return fail_errno("opening template {}", path);
    BERTH_TRY(auto reader, image::TreeReader::open(std::move(top), "", {}, {}));
    auto shared = std::make_shared<image::TreeReader>(std::move(reader));
    return [shared, more = true]() mutable -> Result<std::string> {
        std::string piece;
        while (more && piece.empty()) {
            BERTH_TRY(more, shared->read(piece, kPiece));
        }
        return piece;
    };
}

std::string stat_text(const struct stat& st)
{
    return fmt::format("{} {} {} {} {}.{}\n", st.st_dev, st.st_ino, st.st_mode, st.st_size, st.st_ctim.tv_sec,
                       st.st_ctim.tv_nsec);
}

/// Changes whenever the template does, without its contents being read: 32 digits.
Result<std::string> fingerprint(const std::string& path)
{
    Sha256 hash;
    struct stat st{};
    if (::lstat(path.c_str(), &st) != 0) return fail_errno("looking at template {}", path);
    hash.update(path + "\n" + stat_text(st));
    if (!S_ISDIR(st.st_mode)) return hash.hex().substr(0, 32);
    std::error_code failed;
    for (std::filesystem::recursive_directory_iterator at(path, failed), end; !failed && at != end;
         at.increment(failed)) {
        if (::lstat(at->path().c_str(), &st) == 0) hash.update(at->path().string() + "\n" + stat_text(st));
    }
    if (failed) return fail_with(failed.value(), "looking at template {}", path);
    return hash.hex().substr(0, 32);
}

/// A root file system becomes an image of ours, once.
Result<Image> import_root(const Engine& engine, const Template& root)
{
    BERTH_TRY(const auto print, fingerprint(root.path));
    const std::string name = fmt::format("{}:{}", kTemplateRepository, print);
    auto found = find_image(engine, name);
    if (found || found.error().code != Code::NotFound) return found;
    BERTH_TRY(auto source,
              root.kind == Template::Kind::Directory ? open_tree(root.path) : open_source(root.path));
    const MakeProgress nobody;
    PullReader reader(nobody);
    const auto imported =
        engine.call({.method = "POST",
                     .target = fmt::format("/images/create?fromSrc=-&repo={}&changes={}", url_encode(name),
                                           url_encode(fmt::format("LABEL {}=1", kTemplateMark))),
                     .headers = {{"Content-Type", "application/x-tar"}},
                     .source = std::move(source)},
                    kSlow, [&](std::string_view bytes) { return reader.take(bytes); });
    if (!imported)
        return std::unexpected(Error(imported.error()).while_doing("importing template " + to_string(root)));
    if (auto done = reader.finish(); !done)
        return std::unexpected(std::move(done).error().while_doing("importing template " + to_string(root)));
    return find_image(engine, name);
}

Result<Image> load_archive(const Engine& engine, const Template& root)
{
    struct stat st{};
    if (::stat(root.path.c_str(), &st) != 0) return fail_errno("looking at template {}", root.path);
    if (!S_ISREG(st.st_mode))
        return fail(
            Code::Unsupported,
            "backend docker loads images from archives: pack the layout {} into a tar, or push it to a "
            "registry",
            root.path);
    BERTH_TRY(const auto print, fingerprint(root.path));
    const std::string name =
        fmt::format("{}:{}", kTemplateRepository, sha256_hex(print + "\n" + root.tag).substr(0, 32));
    auto found = find_image(engine, name);
    if (found || found.error().code != Code::NotFound) return found;
    BERTH_TRY(auto source, renamed_archive(root.path, root.tag, name));
    if (auto loaded = load_image(engine, std::move(source)); !loaded)
        return std::unexpected(std::move(loaded).error().while_doing("loading template " + to_string(root)));
    return find_image(engine, name);
}

} // namespace

Status PullReader::line(std::string_view text)
{
    const auto document = json::parse(text);
    if (!document) return fail(Code::Unavailable, "the engine tells its progress in no document");
    const json::Reader at(*document);
    if (const auto error = at.find("error"); error && *error) {
        Error out = refusal(500, (*error)->string().value_or("an error without words"));
        for (const std::string_view word : {"not found", "does not exist", "manifest unknown"})
            if (out.message.find(word) != std::string::npos) out.code = Code::NotFound;
        for (const std::string_view word : {"unauthorized", "denied"})
            if (out.message.find(word) != std::string::npos) out.code = Code::Denied;
        return std::unexpected(std::move(out));
    }
    if (const auto stream = at.find("stream"); stream && *stream && said_.size() < kLongestLine)
        said_ += (*stream)->string().value_or("");
    const auto status = at.find("status");
    if (!progress_ || !status || !*status) return {};
    std::uint64_t have = 0, of = 0;
    if (const auto detail = at.find("progressDetail"); detail && *detail) {
        const auto number = [&](std::string_view name) -> std::uint64_t {
            const auto member = (*detail)->find(name);
            if (!member || !*member) return 0;
            return static_cast<std::uint64_t>((*member)->integer(0, std::int64_t{1} << 60).value_or(0));
        };
        have = number("current");
        of = number("total");
    }
    progress_((*status)->string().value_or(""), have, of);
    return {};
}

Status PullReader::take(std::string_view bytes)
{
    pending_ += bytes;
    for (std::size_t end; (end = pending_.find('\n')) != std::string::npos;) {
        std::string text = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        while (!text.empty() && text.back() == '\r') text.pop_back();
        if (!text.empty()) BERTH_CHECK(line(text));
    }
    if (pending_.size() > kLongestLine)
        return fail(Code::Unavailable, "the engine's progress has no end of line");
    return {};
}

Status PullReader::finish()
{
    if (pending_.empty()) return {};
    return line(std::exchange(pending_, {}));
}

Result<Image> find_image(const Engine& engine, const std::string& name)
{
    BERTH_TRY(const auto document, engine.get(fmt::format("/images/{}/json", url_encode(name))));
    const json::Reader at(document);
    Image out{.id = {}, .name = name, .defaults = {}};
    BERTH_TRY(const auto id, at.at("Id"));
    BERTH_TRY(out.id, id.string());
    BERTH_TRY(const auto config, at.find("Config"));
    if (config) out.defaults = parse_defaults(config->value());
    return out;
}

Status pull_image(const Engine& engine, const std::string& name, const MakeProgress& progress)
{
    // "host:5000/name:tag": a colon after the last slash begins the tag. Without one every tag would come.
    const auto slash = name.rfind('/');
    const auto colon = name.find(':', slash == std::string::npos ? 0 : slash);
    const bool digest = name.find('@') != std::string::npos;
    std::string target = "/images/create?fromImage=";
    if (digest || colon == std::string::npos)
        target += url_encode(name) + (digest ? "" : "&tag=latest");
    else
        target += url_encode(name.substr(0, colon)) + "&tag=" + url_encode(name.substr(colon + 1));
    PullReader reader(progress);
    const auto pulled = engine.call({.method = "POST", .target = target}, kSlow,
                                    [&](std::string_view bytes) { return reader.take(bytes); });
    if (!pulled) return std::unexpected(Error(pulled.error()).while_doing("pulling " + name));
    if (auto done = reader.finish(); !done)
        return std::unexpected(std::move(done).error().while_doing("pulling " + name));
    return {};
}

Result<std::string> load_image(const Engine& engine, ByteSource source)
{
    const MakeProgress nobody;
    PullReader reader(nobody);
    const auto loaded = engine.call({.method = "POST",
                                     .target = "/images/load?quiet=1",
                                     .headers = {{"Content-Type", "application/x-tar"}},
                                     .source = std::move(source)},
                                    kSlow, [&](std::string_view bytes) { return reader.take(bytes); });
    if (!loaded) return std::unexpected(Error(loaded.error()).while_doing("loading an image"));
    if (auto done = reader.finish(); !done)
        return std::unexpected(std::move(done).error().while_doing("loading an image"));
    // "Loaded image: name:tag" where it has a name, else "Loaded image ID: sha256:…".
    std::string name;
    for (const auto& said : split(reader.said(), '\n'))
        for (const std::string_view prefix : {"Loaded image ID: ", "Loaded image: "})
            if (said.starts_with(prefix)) name = said.substr(prefix.size());
    if (name.empty()) return fail(Code::Invalid, "the archive holds no image");
    return name;
}

Result<Image> ensure_image(const Engine& engine, const Template& root, const MakeProgress& progress)
{
    std::string name = root.path;
    switch (root.kind) {
    case Template::Kind::Directory: return import_root(engine, root);
    case Template::Kind::Tar:
        return image::is_image_archive(root.path) ? load_archive(engine, root) : import_root(engine, root);
    case Template::Kind::Oci: return load_archive(engine, root);
    case Template::Kind::Live:
        return fail(Code::Unsupported,
                    "template live is this machine's own view: backend docker has images only");
    case Template::Kind::Host: {
        const char* usual = std::getenv("BERTH_DOCKER_IMAGE");
        if (usual == nullptr || *usual == '\0')
            return fail(Code::Unsupported,
                        "template host is this machine's own programs: backend docker needs an "
                        "image, as in --template image:debian:12, or BERTH_DOCKER_IMAGE");
        name = usual;
        break;
    }
    case Template::Kind::Image: break;
    }
    auto found = find_image(engine, name);
    if (found || found.error().code != Code::NotFound) return found;
    BERTH_CHECK(pull_image(engine, name, progress));
    return find_image(engine, name);
}

} // namespace berth::docker
