// Snapshots are images: the container is committed, saved to a file and the image removed again. What is
// mounted is no part of an image, and neither are processes or memory.

#include "backend/docker/snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <set>

#include "backend/docker/image_removal.hpp"
#include "backend/docker/inspect.hpp"
#include "backend/docker/packed_file.hpp"
#include "backend/docker/sandbox.hpp"
#include "backend/docker/uncommitted.hpp"
#include "backend/docker/unpacked.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "keeping/lock.hpp"
#include "keeping/native.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr const char* kFile = "image.tar.zst";
constexpr const char* kPlainFile = "image.tar";
constexpr const char* kRepository = "berth-snap";
constexpr const char* kMark = "berth.snapshot";
constexpr const char* kSuccessorRepository = "berth-successor";
constexpr const char* kSuccessorMark = "berth.successor";
constexpr const char* kDefaults = "berth.defaults";
constexpr auto kTemplateAge = std::chrono::days(1);
constexpr HttpLimits kSlow{.patience = 300s, .body = 32_MiB};
constexpr std::size_t kPiece = std::size_t{256} << 10;

std::string image_name(const std::string& snapshot) { return fmt::format("{}:{}", kRepository, snapshot); }

/// Podman says where a name without a registry belongs.
std::string_view plain_name(std::string_view name)
{
    for (const std::string_view place : {"docker.io/library/", "localhost/"})
        if (name.starts_with(place)) name.remove_prefix(place.size());
    return name;
}

std::string hex(std::string_view text)
{
    std::string out;
    for (const char c : text) out += fmt::format("{:02x}", static_cast<unsigned char>(c));
    return out;
}

std::string unhex(std::string_view text)
{
    std::string out;
    const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        out += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
    return out;
}

/// What the first image asked for: the container's own settings are the keeper's. As a label, which goes
/// wherever the image goes.
std::string defaults_text(const ImageDefaults& defaults)
{
    json::Array env;
    for (const auto& [name, value] : defaults.env) env.emplace_back(name + "=" + value);
    json::Object out;
    out["Env"] = std::move(env);
    out["WorkingDir"] = defaults.workdir;
    out["User"] = defaults.user;
    return hex(json::dump(out));
}

/// Saves an image into the directory: its size and hash as it lies there.
Status save(const Engine& engine, const std::string& image, const std::string& directory,
            SnapshotTaken& taken)
{
    BERTH_TRY(auto file, PackedFile::create(directory + "/" + kFile));
    bool empty = true;
    std::string tail;
    const auto write = [&](std::string_view bytes) -> Status {
        empty = empty && bytes.empty();
        tail += bytes.substr(bytes.size() - std::min(bytes.size(), kTarEnd));
        if (tail.size() > kTarEnd) tail.erase(0, tail.size() - kTarEnd);
        return file.write(bytes);
    };
    BERTH_TRY([[maybe_unused]] const auto answer,
              engine.call({.target = fmt::format("/images/{}/get", url_encode(image))}, kSlow, write));
    if (empty) return fail(Code::Unavailable, "the engine saved nothing");
    BERTH_CHECK(check_archive_end(tail));
    BERTH_CHECK(file.finish());
    taken.bytes = file.bytes();
    taken.sha256 = file.sha256();
    return {};
}

/// What save() has written, or an earlier version of it that did not compress.
Result<ByteSource> saved_image(const std::string& directory)
{
    if (auto packed = unpacked(directory + "/" + kFile); packed || packed.error().code != Code::NotFound)
        return packed;
    const std::string path = directory + "/" + kPlainFile;
    auto file = std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!*file) return fail_errno("opening {}", path);
    return ByteSource([file]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        const ssize_t n = ::read(file->get(), piece.data(), piece.size());
        if (n < 0) return fail_errno("reading a snapshot");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    });
}

std::vector<std::string> left_out(const SandboxSpec& spec)
{
    std::vector<std::string> out;
    for (const auto& mount : spec.mounts)
        out.push_back("the mount at " + mount.target + " is not part of it");
    for (const auto& volume : spec.volumes)
        out.push_back("the volume at " + volume.target + " is not part of it");
    return out;
}

Status check_volumes(const Container& container, std::string tree)
{
    if (!tree.ends_with('/')) tree += '/';
    std::vector<std::string> below;
    for (const auto& volume : container.volumes)
        if (volume.starts_with(tree)) below.push_back(volume);
    if (below.empty()) return {};
    return fail(
        Code::Unsupported,
        "the image keeps {} in a volume of the engine, which no snapshot has: berth cp takes it along, "
        "and a snapshot of kind {} has a workspace beside it",
        printable(fmt::format("{}", fmt::join(below, ", ")), 200), snapshot_kind::kWorkspaceTar);
}

} // namespace

Status check_archive_end(std::string_view tail)
{
    if (tail.size() == kTarEnd && tail.find_first_not_of('\0') == std::string_view::npos) return {};
    std::string said;
    if (const auto at = tail.rfind("{\"error"); at != std::string_view::npos)
        if (const auto document = json::parse(tail.substr(at)))
            if (const auto error = json::Reader(*document).find("error"); error && *error)
                said = (*error)->string().value_or("");
    Error out = refusal(500, said.empty() ? std::string_view("it ended in the middle") : said);
    return std::unexpected(std::move(out).while_doing("saving an image"));
}

namespace {

/// What a commit has made; empty: it does not say.
std::string id_in(const std::string& answer)
{
    const auto document = json::parse(answer);
    if (!document) return {};
    const auto id = json::Reader(*document).find("Id");
    return id && *id ? (*id)->string().value_or("") : std::string{};
}

} // namespace

Result<std::string> commit_container(const Engine& engine, const Instance& instance, CommitFor purpose,
                                     const std::string& tag)
{
    const bool snapshot = purpose == CommitFor::Snapshot;
    std::string changes;
    for (const auto& change : {fmt::format("LABEL {}=1", snapshot ? kMark : kSuccessorMark),
                               std::string("CMD []"), std::string("ENTRYPOINT []"),
                               fmt::format("LABEL {}={}", kDefaults, defaults_text(instance.defaults))})
        changes += "&changes=" + url_encode(change);
    // Whatever is run from the image is another sandbox, or nobody's.
    for (const char* cleared : {label::kId, label::kKey, label::kSpecHash, label::kOwner, label::kGeneration,
                                label::kFormer, label::kExoKey, label::kExoHash})
        changes += "&changes=" + url_encode(fmt::format("LABEL {}=\"\"", cleared));
    BERTH_TRY(const auto committed,
              engine.call(
                  {.method = "POST",
                   .target = fmt::format("/commit?container={}&repo={}&tag={}&pause=1{}", instance.container,
                                         snapshot ? kRepository : kSuccessorRepository, tag, changes),
                   .headers = {{"Content-Type", "application/json"}},
                   .body = "{}"},
                  kSlow));
    return id_in(committed.body);
}

Status check_volumes(const Where& where, const std::string& native, const std::string& tree)
{
    BERTH_TRY(const auto directory, where.dirs.open(native, 0));
    BERTH_TRY(const auto instance, read_instance(directory.get()));
    BERTH_TRY(const auto container, inspect_container(where.engine, instance.container));
    return check_volumes(container, tree);
}

Result<SnapshotTaken> take_snapshot(const Where& where, const std::string& native,
                                    const SnapshotRequest& request)
{
    if (!is_id(request.id, "snap_"))
        return fail(Code::Invalid, "'{}' is not the id of a snapshot", request.id);
    const auto begun = std::chrono::steady_clock::now();
    BERTH_TRY(const auto directory, where.dirs.lock(native));
    BERTH_TRY(const auto instance, read_instance(directory.get()));
    BERTH_CHECK(same_engine(where.engine, instance));
    BERTH_TRY(const auto container, inspect_container(where.engine, instance.container));
    BERTH_CHECK(check_volumes(container, "/"));
    const std::string name = image_name(request.id);
    BERTH_TRY(const auto images, lock_images(where.dirs, ImageUse::Load)); // until it is saved
    KnownImage made{.name = name, .id = {}};
    ScopeExit undo([&] { (void)remove_image(where, made, true); });
    // The engine holds everything still for the moment of the commit, the keeper too: no command may be on
    // its way into it then.
    {
        BERTH_TRY(const auto turn, keeping::Turn::take(directory.get(), keeping::Turn::Kind::Freeze));
        auto committed = commit_container(where.engine, instance, CommitFor::Snapshot, request.id);
        if (!committed)
            return std::unexpected(
                std::move(committed).error().while_doing("taking a snapshot of " + native));
        made.id = *std::move(committed);
    }
    hooks::kill_point("docker: committed");
    SnapshotTaken taken{.kind = std::string(kImageTar), .file = kFile, .live_copy = true};
    if (auto saved = save(where.engine, name, request.directory, taken); !saved)
        return std::unexpected(std::move(saved).error().while_doing("taking a snapshot of " + native));
    taken.elapsed = std::chrono::steady_clock::now() - begun;
    taken.notes = left_out(instance.spec);
    for (auto& note : note_uncommitted(where.engine, container, instance.inside))
        taken.notes.push_back(std::move(note));
    return taken;
}

Result<SnapshotTaken> snapshot_of(const Where& where, const std::string& native,
                                  const SnapshotRequest& request)
{
    BERTH_CHECK(keeping::check_native(native));
    if (request.kind.empty() || request.kind == kImageTar) return take_snapshot(where, native, request);
    return fail(Code::Unsupported, "backend docker cannot take a snapshot of kind '{}'; it knows {}",
                printable(request.kind, 60), kImageTar);
}

Status check_restorable(const CreateRequest& request)
{
    if (!request.from || request.from->kind == kImageTar || request.from->kind == snapshot_kind::kRootTar)
        return {};
    return fail(Code::Unsupported,
                "backend docker cannot start from a snapshot of kind '{}'; it knows {} and {}",
                printable(request.from->kind, 60), kImageTar, snapshot_kind::kRootTar);
}

namespace {

/// A whole root, compressed, becomes an image of one layer. What the first image asked for is kept beside it
/// and becomes a label, as where a container is committed.
Result<Image> import_root(const Engine& engine, const SnapshotSource& from)
{
    BERTH_TRY(auto source, unpacked(fmt::format("{}/{}", from.directory, snapshot_kind::kRootTarFile)));
    std::string changes = "&changes=" + url_encode(fmt::format("LABEL {}=1", kMark));
    BERTH_TRY(const auto kept, kept_image_defaults(from.directory));
    if (kept)
        changes += "&changes=" + url_encode(fmt::format("LABEL {}={}", kDefaults, defaults_text(*kept)));
    const MakeProgress nobody;
    PullReader reader(nobody);
    const auto imported = engine.call({.method = "POST",
                                       .target = fmt::format("/images/create?fromSrc=-&repo={}{}",
                                                             url_encode(image_name(from.id)), changes),
                                       .headers = {{"Content-Type", "application/x-tar"}},
                                       .source = std::move(source)},
                                      kSlow, [&](std::string_view bytes) { return reader.take(bytes); });
    if (!imported) return std::unexpected(Error(imported.error()).while_doing("importing " + from.id));
    if (auto done = reader.finish(); !done)
        return std::unexpected(std::move(done).error().while_doing("importing " + from.id));
    return find_image(engine, image_name(from.id));
}

} // namespace

Result<Image> load_snapshot(const Engine& engine, const SnapshotSource& from)
{
    const std::string name = image_name(from.id);
    auto image = find_image(engine, name);
    const bool missing = !image && image.error().code == Code::NotFound;
    if (missing && from.kind == snapshot_kind::kRootTar) {
        image = import_root(engine, from);
    } else if (missing) {
        BERTH_TRY(auto source, saved_image(from.directory));
        BERTH_TRY(const auto loaded, load_image(engine, std::move(source)));
        // Whatever it is called in the file, here it goes by the name of the snapshot.
        if (plain_name(loaded) != name)
            BERTH_CHECK(engine.post(
                fmt::format("/images/{}/tag?repo={}&tag={}", url_encode(loaded), kRepository, from.id)));
        image = find_image(engine, name);
    }
    if (!image) return image;
    BERTH_TRY(const auto document, engine.get(fmt::format("/images/{}/json", url_encode(name))));
    const json::Reader at(document);
    BERTH_TRY(const auto config, at.at("Config"));
    BERTH_TRY(const auto labels, config.find("Labels"));
    if (!labels) return image;
    BERTH_TRY(const auto kept, labels->find(kDefaults));
    if (!kept) return image;
    BERTH_TRY(const auto text, kept->string());
    BERTH_TRY(const auto defaults, json::parse(unhex(text)));
    image->defaults = parse_defaults(defaults);
    return image;
}

Result<ImageDefaults> defaults_of(const InstanceDirs& dirs, const std::string& native)
{
    BERTH_TRY(const auto directory, dirs.open(native, 0));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    return std::move(instance.defaults);
}

Status drop_snapshot_image(const Where& where, const std::string& snapshot)
{
    const std::string name = image_name(snapshot);
    const auto image = find_image(where.engine, name);
    auto gone =
        image ? remove_image(where, {.name = name, .id = image->id}) : Status(std::unexpected(image.error()));
    if (!gone && (gone.error().code == Code::NotFound || gone.error().code == Code::Conflict ||
                  gone.error().code == Code::Unavailable))
        return {};
    return gone;
}

Result<UniqueFd> lock_images(const InstanceDirs& dirs, ImageUse use)
{
    UniqueFd file(::openat(dirs.fd(), ".images", O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("opening the lock of the images");
    const auto how = use == ImageUse::Load ? keeping::Use::Shared : keeping::Use::Alone;
    if (!keeping::lock_within(file.get(), how, 60s))
        return fail(Code::Unavailable, "the engine's images are being collected");
    return file;
}

namespace {

/// The ids of images that some container is made of.
Result<std::set<std::string>> images_in_use(const Engine& engine)
{
    BERTH_TRY(const auto document, engine.get("/containers/json?all=1"));
    BERTH_TRY(const auto all, json::Reader(document).array());
    std::set<std::string> out;
    for (const auto& one : all) {
        BERTH_TRY(const auto id, one.find("ImageID"));
        if (id) out.insert(id->string().value_or(""));
    }
    return out;
}

/// Takes images away that have a name of the repository and, unless it is empty, the mark, were made before a
/// moment, and are in no use. One that a container is made of meanwhile is refused by the engine.
Status collect_marked(const Where& where, const std::string& mark, const std::string& repository,
                      std::int64_t before, bool dry_run, Collected& out)
{
    const Engine& engine = where.engine;
    BERTH_TRY(const auto used, images_in_use(engine));
    json::Object filters;
    if (!mark.empty()) filters["label"] = json::Array{json::Value(mark)};
    BERTH_TRY(const auto document, engine.get("/images/json?filters=" + url_encode(json::dump(filters))));
    BERTH_TRY(const auto all, json::Reader(document).array());
    for (const auto& one : all) {
        BERTH_TRY(const auto id, one.at("Id"));
        BERTH_TRY(const auto created, one.at("Created"));
        BERTH_TRY(const auto tags, one.find("RepoTags"));
        if (!tags || used.contains(id.string().value_or("")) ||
            created.integer(0, std::int64_t{1} << 40).value_or(before) >= before)
            continue;
        BERTH_TRY(const auto names, tags->strings());
        for (const auto& name : names) {
            if (!plain_name(name).starts_with(repository + ":")) continue;
            if (!dry_run && !remove_image(where, {.name = name, .id = id.string().value_or("")})) continue;
            out.objects.push_back("image " + name);
        }
    }
    return {};
}

} // namespace

Result<Collected> collect_images(const Where& where, bool dry_run)
{
    Collected out;
    BERTH_TRY(const auto lock, lock_images(where.dirs, ImageUse::Collect));
    const auto now = std::chrono::floor<std::chrono::seconds>(system_clock().now()).time_since_epoch();
    auto done = dry_run ? Status{} : finish_removals(where);
    if (done)
        done =
            collect_marked(where, kMark, kRepository, std::numeric_limits<std::int64_t>::max(), dry_run, out);
    if (done)
        done = collect_marked(where, kSuccessorMark, kSuccessorRepository,
                              std::numeric_limits<std::int64_t>::max(), dry_run, out);
    // A template is imported again where it is wanted again: one that was made of late stays. One that was
    // loaded from an archive has our name and no mark.
    if (done)
        done = collect_marked(where, {}, kTemplateRepository, (now - kTemplateAge).count(), dry_run, out);
    if (!done && done.error().code != Code::Unavailable) return std::unexpected(done.error());
    return out; // without an engine there is nothing of ours in it
}

} // namespace berth::docker
