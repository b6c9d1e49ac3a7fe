#include "image/tar_template.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hooks.hpp"
#include "image/archive_file.hpp"
#include "image/digest.hpp"
#include "image/root_check.hpp"
#include "image/unpack.hpp"

namespace berth::image {

namespace {

Result<std::optional<TarTemplate>> find(const Cache& cache, const std::string& sha256)
{
    BERTH_TRY(const auto record, cache.use("tar-" + sha256));
    if (!record) return std::nullopt;
    const std::string dir = cache.path() + "/tar-" + sha256;
    return TarTemplate{.dir = dir,
                       .root = dir + "/root",
                       .sha256 = sha256,
                       .ids = record->starts_with("sandbox") ? Ids::Sandbox : Ids::Maker};
}

Result<std::string> fill(int dir, const Archive& archive)
{
    BERTH_TRY(const Ids ids, ids_possible_in(dir));
    if (::mkdirat(dir, "root", 0755) != 0) return fail_errno("creating root");
    const UniqueFd root(::openat(dir, "root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root) return fail_errno("opening root");
    if (::fchmod(root.get(), 0755) != 0) return fail_errno("setting the mode of root");
    if (::lseek(archive.file.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding {}", archive.path);
    BERTH_TRY(const UnpackReport report, unpack_tar(archive.file.get(), root.get(), {.ids = ids}));
    hooks::kill_point("template:unpacked");
    BERTH_CHECK(check_root(root.get(), "template " + archive.path));

    BERTH_CHECK(check_unchanged(archive));
    return fmt::format("{} {} entries\n", ids == Ids::Sandbox ? "sandbox" : "maker", report.entries);
}

} // namespace

Result<TarTemplate> ensure_tar_template(const std::string& cache_dir, const std::string& tar,
                                        const Progress& progress, const Clock& clock)
{
    BERTH_TRY(const Cache cache, Cache::open(cache_dir));
    BERTH_TRY(const Archive archive, open_archive(tar));
    if (const auto known = known_digest(cache, archive)) {
        BERTH_TRY(auto found, find(cache, *known));
        if (found) return *std::move(found);
    }

    BERTH_TRY(const CacheLock lock, cache.lock("tar", progress));
    if (progress) progress("reading template " + archive.path);
    BERTH_TRY(const std::string sha256, sha256_of(archive.file.get(), archive.path));
    BERTH_TRY(auto found, find(cache, sha256));
    if (!found) {
        if (progress) progress("unpacking template " + archive.path + " (once for its content)");
        auto made = cache.make(lock, "tar-" + sha256, [&](int dir) { return fill(dir, archive); });
        if (!made)
            return std::unexpected(
                std::move(made).error().while_doing("making a template of " + archive.path));
        BERTH_TRY(found, find(cache, sha256));
        if (!found) return fail(Code::Internal, "template tar-{} is gone right after it was made", sha256);
    }
    remember_digest(cache, archive, sha256, clock);
    return *std::move(found);
}

Result<std::optional<TarTemplate>> find_tar_template(const std::string& cache_dir, const std::string& sha256)
{
    BERTH_TRY(const Cache cache, Cache::open(cache_dir));
    return find(cache, sha256);
}

} // namespace berth::image
