#include "image/unpack.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/strings.hpp"
#include "image/layer_marks.hpp"
#include "image/tar_reader.hpp"
#include "image/tree_writer.hpp"

namespace berth::image {

namespace {

constexpr std::int64_t kLargestId = 65535;

struct Node {
    std::string_view name;
    unsigned major;
    unsigned minor;
};

/// What debootstrap and friends put into /dev. A sandbox has a /dev of its own.
constexpr std::array kUsualNodes = std::to_array<Node>({
    {"dev/null", 1, 3},
    {"dev/zero", 1, 5},
    {"dev/full", 1, 7},
    {"dev/random", 1, 8},
    {"dev/urandom", 1, 9},
    {"dev/tty", 5, 0},
    {"dev/console", 5, 1},
    {"dev/ptmx", 5, 2},
});

bool is_usual_node(const TarEntry& entry, std::string_view path)
{
    return entry.kind == TarEntry::Kind::CharDevice &&
           std::any_of(kUsualNodes.begin(), kUsualNodes.end(), [&](const Node& node) {
               return node.name == path && node.major == entry.major && node.minor == entry.minor;
           });
}

/// Tar frames content in 512-byte blocks; names and attributes add a few more to each entry.
Bytes stream_limit(const UnpackOptions& options)
{
    constexpr std::uint64_t kFraming = 4096;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
    const std::uint64_t framing = std::min(options.max_entries, kMost / kFraming) * kFraming;
    return Bytes{std::min(options.max_bytes.count, kMost) + framing + (16u << 20)};
}

Status write_at(int fd, std::string_view bytes, std::int64_t offset)
{
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("writing {} bytes", bytes.size());
        bytes.remove_prefix(static_cast<std::size_t>(n));
        offset += n;
    }
    return {};
}

class Unpacker {
public:
    Unpacker(TarReader reader, int dest, const UnpackOptions& options)
        : reader_(std::move(reader)), writer_(dest, options.ids), options_(options)
    {
        if (options.below != nullptr) layer_.emplace(*options.below, writer_);
    }

    Result<UnpackReport> run()
    {
        for (TarEntry entry;;) {
            BERTH_TRY(const bool more, reader_.next(entry));
            if (!more) break;
            ++report_.entries;
            if (auto done = take(entry); !done)
                return std::unexpected(std::move(done).error().while_doing(
                    fmt::format("unpacking '{}'", printable(entry.name))));
        }
        if (layer_) {
            BERTH_CHECK(layer_->hide());
            BERTH_CHECK(reader_.drain());
            report_.opaque_root = layer_->opaque_root();
        }
        BERTH_CHECK(writer_.finish());
        report_.dropped_xattrs += writer_.dropped_xattrs();
        return report_;
    }

private:
    Status take(const TarEntry& entry)
    {
        if (report_.entries + writer_.implied_directories() > options_.max_entries)
            return fail(Code::Exhausted, "the archive has more than {} entries", options_.max_entries);
        if (entry.name.empty()) return fail(Code::Invalid, "an entry has no name");
        BERTH_TRY(std::string path, clean_name(entry.name));
        BERTH_CHECK(spend(entry));
        if (layer_) {
            BERTH_TRY(const bool mark, layer_->take_mark(path));
            if (mark) return {};
            BERTH_TRY(path, layer_->settle(path));
        }
        BERTH_TRY(const Attributes attributes, attributes_of(entry));

        switch (entry.kind) {
        case TarEntry::Kind::File: return file(entry, path, attributes);
        case TarEntry::Kind::Directory: return writer_.directory(path, attributes);
        case TarEntry::Kind::Symlink: return writer_.symlink(path, entry.target, attributes);
        case TarEntry::Kind::Fifo: return writer_.fifo(path, attributes);
        case TarEntry::Kind::Hardlink: {
            BERTH_TRY(std::string target, clean_name(entry.target));
            if (layer_) {
                BERTH_TRY(target, layer_->settle(target));
            }
            return writer_.hardlink(path, target);
        }
        case TarEntry::Kind::Socket: ++report_.skipped; return {};
        case TarEntry::Kind::CharDevice:
        case TarEntry::Kind::BlockDevice:
            if (!is_usual_node(entry, path) && !(layer_ && path.starts_with("dev/")))
                return fail(Code::Invalid, "'{}' is a device node ({}:{})", printable(path), entry.major,
                            entry.minor);
            ++report_.skipped;
            return {};
        case TarEntry::Kind::Other: break;
        }
        return fail(Code::Invalid, "'{}' is of an unknown type", printable(path));
    }

    /// Charges what the entry declares, whatever its type: content is skipped through, too.
    Status spend(const TarEntry& entry)
    {
        const std::uint64_t left = options_.max_bytes.count - report_.bytes;
        if (entry.size < 0 || static_cast<std::uint64_t>(entry.size) > left)
            return fail(Code::Exhausted, "'{}' declares {} bytes; the archive may hold {}",
                        printable(entry.name), entry.size, show(options_.max_bytes));
        report_.bytes += static_cast<std::uint64_t>(entry.size);
        return {};
    }

    Result<Attributes> attributes_of(const TarEntry& entry)
    {
        Attributes attributes{.mode = entry.mode, .mtime = entry.mtime};
        if (options_.ids == Ids::Sandbox) {
            if (entry.uid < 0 || entry.uid > kLargestId || entry.gid < 0 || entry.gid > kLargestId)
                return fail(Code::Invalid, "'{}' belongs to {}:{}; a sandbox has ids 0 to {}",
                            printable(entry.name), entry.uid, entry.gid, kLargestId);
            attributes.uid = static_cast<uid_t>(entry.uid);
            attributes.gid = static_cast<gid_t>(entry.gid);
        }
        for (const auto& [name, value] : entry.xattrs) {
            if (keeps(name))
                attributes.xattrs.emplace_back(name, value);
            else
                ++report_.dropped_xattrs;
        }
        return attributes;
    }

    /// "user.overlay." marks whiteouts and redirects in an ordinary user's overlay, as "trusted.overlay."
    /// does in root's: an archive must not be able to write them into a layer.
    [[nodiscard]] bool keeps(std::string_view name) const
    {
        if (name == "security.capability") return options_.capabilities && options_.ids == Ids::Sandbox;
        return name.starts_with("user.") && !name.starts_with("user.overlay.") && name.size() <= 255;
    }

    Status file(const TarEntry& entry, const std::string& path, const Attributes& attributes)
    {
        BERTH_TRY(const UniqueFd fd, writer_.file(path));
        for (;;) {
            BERTH_TRY(const auto block, reader_.block());
            if (!block) break;
            const auto length = static_cast<std::int64_t>(block->bytes.size());
            if (block->offset < 0 || block->offset > entry.size || length > entry.size - block->offset)
                return fail(Code::Invalid, "'{}' holds more than the {} bytes it declares", printable(path),
                            entry.size);
            BERTH_CHECK(write_at(fd.get(), block->bytes, block->offset));
        }
        // A hole at the end, or content that is missing, which tar calls zeros.
        if (::ftruncate(fd.get(), entry.size) != 0) return fail_errno("sizing '{}'", printable(path));
        return writer_.seal(fd.get(), path, attributes);
    }

    TarReader reader_;
    TreeWriter writer_;
    std::optional<LayerMarks> layer_; ///< of an image
    const UnpackOptions& options_;
    UnpackReport report_;
};

} // namespace

Result<UnpackReport> unpack_tar(int archive, int dest, const UnpackOptions& options)
{
    Sha256 digest;
    const bool layer = options.below != nullptr;
    BERTH_TRY(TarReader reader, TarReader::open(archive, stream_limit(options), layer ? &digest : nullptr));
    auto report = Unpacker(std::move(reader), dest, options).run();
    if (report && layer) report->sha256 = digest.hex();
    return report;
}

} // namespace berth::image
