#include "backend/docker/archived_image.hpp"

#include <memory>
#include <optional>

#include "base/json.hpp"
#include "base/strings.hpp"
#include "image/archive_file.hpp"
#include "image/oci_choose.hpp"
#include "image/tar_reader.hpp"
#include "image/tar_writer.hpp"
#include "image/tree_writer.hpp"

namespace berth::docker {

namespace {

using image::TarEntry;
using image::TarMember;

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr Bytes kLargestArchive = Bytes{1ull << 40};
constexpr const char* kManifest = "manifest.json";

/// Where an engine finds names: in the manifest, in the older list, or in the index of a layout, which some
/// prefer to the manifest.
bool names_images(std::string_view file)
{
    return file == kManifest || file == "repositories" || file == "index.json" || file == "oci-layout";
}

class Renaming {
public:
    Renaming(image::Archive archive, image::TarReader reader, std::string tag, std::string name)
        : archive_(std::move(archive)), reader_(std::move(reader)), tag_(std::move(tag)),
          name_(std::move(name))
    {
    }

    Result<std::string> next()
    {
        std::string out;
        while (out.size() < kPiece && !ended_)
            if (left_)
                BERTH_CHECK(content(out));
            else
                BERTH_CHECK(member(out));
        return out;
    }

private:
    Status member(std::string& out)
    {
        TarEntry entry;
        BERTH_TRY(const bool more, reader_.next(entry));
        if (!more) {
            if (!named_) return refuse("it has no manifest.json as docker save writes it");
            out += image::tar::end();
            ended_ = true;
            return {};
        }
        BERTH_TRY(const auto path, image::clean_name(entry.name));
        if (path.empty()) return {};
        const auto slash = path.rfind('/');
        if (names_images(path.substr(slash == std::string::npos ? 0 : slash + 1))) {
            // By way of a link it might come to lie on top.
            if (slash != std::string::npos || entry.kind != TarEntry::Kind::File)
                return refuse(fmt::format("{} is where it has no business", printable(path, 200)));
            return path == kManifest ? manifest(out) : Status{};
        }
        TarMember copy{.name = path, .mode = entry.mode};
        switch (entry.kind) {
        case TarEntry::Kind::File:
            copy.size = static_cast<std::uint64_t>(std::max<std::int64_t>(entry.size, 0));
            left_ = copy.size;
            at_ = 0;
            break;
        case TarEntry::Kind::Directory: copy.kind = TarMember::Kind::Directory; break;
        case TarEntry::Kind::Symlink: copy.kind = TarMember::Kind::Symlink; break;
        case TarEntry::Kind::Hardlink: copy.kind = TarMember::Kind::Hardlink; break;
        default: return refuse(fmt::format("{} is neither a file nor a link", printable(path, 200)));
        }
        copy.target = entry.target;
        out += image::tar::header(copy);
        return {};
    }

    Status content(std::string& out)
    {
        BERTH_TRY(const auto block, reader_.block());
        if (!block) {
            if (*left_ != 0) return refuse("a file in it is shorter than it says");
            out += image::tar::padding(at_);
            left_.reset();
            return {};
        }
        if (static_cast<std::uint64_t>(block->offset) != at_ || block->bytes.size() > *left_)
            return refuse("a file in it has holes");
        out += block->bytes;
        at_ += block->bytes.size();
        *left_ -= block->bytes.size();
        return {};
    }

    /// The one image that is asked for, and no name but ours.
    Status manifest(std::string& out)
    {
        std::string text;
        for (;;) {
            BERTH_TRY(const auto block, reader_.block());
            if (!block) break;
            if (text.size() + block->bytes.size() > image::oci::kLargestDocument.count)
                return refuse("its manifest.json is too large");
            text += block->bytes;
        }
        BERTH_TRY(const auto images, image::oci::parse_archive_manifest(text));
        BERTH_TRY(const auto chosen, image::oci::choose(images, tag_));
        json::Array layers;
        for (const auto& layer : chosen.layers) layers.emplace_back(layer);
        json::Object one;
        one["Config"] = chosen.config;
        one["RepoTags"] = json::Array{json::Value(name_)};
        one["Layers"] = std::move(layers);
        const std::string document = json::dump(json::Array{json::Value(std::move(one))});
        out += image::tar::header({.name = kManifest, .size = document.size()}) + document +
               image::tar::padding(document.size());
        named_ = true;
        return {};
    }

    [[nodiscard]] Status refuse(std::string_view why) const
    {
        return fail(Code::Invalid, "{} is no archive of an image that can be loaded: {}", archive_.path, why);
    }

    image::Archive archive_;
    image::TarReader reader_;
    std::string tag_;
    std::string name_;
    std::optional<std::uint64_t> left_; ///< of the present file
    std::uint64_t at_ = 0;
    bool named_ = false;
    bool ended_ = false;
};

} // namespace

Result<ByteSource> renamed_archive(const std::string& path, const std::string& tag, const std::string& name)
{
    BERTH_TRY(auto archive, image::open_archive(path));
    BERTH_TRY(auto reader, image::TarReader::open(archive.file.get(), kLargestArchive));
    auto renaming = std::make_shared<Renaming>(std::move(archive), std::move(reader), tag, name);
    return ByteSource([renaming] { return renaming->next(); });
}

} // namespace berth::docker
