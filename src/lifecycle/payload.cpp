#include "lifecycle/payload.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::payload {

namespace {

constexpr const char* kUnfinished = ".new";

Result<UniqueFd> open_root(const std::string& root)
{
    if (::mkdir(root.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("creating {}", root);
    UniqueFd dir(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir) return fail_errno("opening {}", root);
    return dir;
}

Status sync_tree(int dir)
{
    BERTH_TRY(const auto names, list_names(dir));
    for (const auto& name : names) {
        const UniqueFd file(::openat(dir, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!file || ::fsync(file.get()) != 0) return fail_errno("bringing {} to the disk", name);
    }
    if (::fsync(dir) != 0) return fail_errno("bringing a snapshot to the disk");
    return {};
}

/// One level deep: a payload is one file or a few.
Status remove_at(int root, const std::string& name)
{
    const UniqueFd dir(::openat(root, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir && errno == ENOENT) return {};
    if (!dir) return fail_errno("opening snapshot {}", name);
    BERTH_TRY(const auto files, list_names(dir.get()));
    for (const auto& file : files)
        if (::unlinkat(dir.get(), file.c_str(), 0) != 0 && errno != ENOENT)
            return fail_errno("removing {} of snapshot {}", printable(file, 60), name);
    if (::unlinkat(root, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        return fail_errno("removing snapshot {}", name);
    return {};
}

} // namespace

Result<std::string> begin(const std::string& root, const std::string& id)
{
    BERTH_TRY(const auto dir, open_root(root));
    const std::string name = id + kUnfinished;
    BERTH_CHECK(remove_at(dir.get(), name));
    if (::mkdirat(dir.get(), name.c_str(), 0700) != 0) return fail_errno("creating snapshot {}", id);
    return root + "/" + name;
}

Status complete(const std::string& root, const std::string& id)
{
    BERTH_TRY(const auto all, open_root(root));
    const std::string name = id + kUnfinished;
    const UniqueFd dir(::openat(all.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir) return fail_errno("opening snapshot {}", id);
    BERTH_CHECK(sync_tree(dir.get()));
    if (::renameat(all.get(), name.c_str(), all.get(), id.c_str()) != 0)
        return fail_errno("naming snapshot {}", id);
    if (::fsync(all.get()) != 0) return fail_errno("bringing snapshot {} to the disk", id);
    return {};
}

Status remove(const std::string& root, const std::string& id)
{
    BERTH_TRY(const auto all, open_root(root));
    BERTH_CHECK(remove_at(all.get(), id + kUnfinished));
    return remove_at(all.get(), id);
}

Status check(const std::string& root, const SnapshotRecord& snapshot)
{
    BERTH_TRY(const auto all, open_root(root));
    const UniqueFd dir(
        ::openat(all.get(), snapshot.id.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir && errno == ENOENT)
        return fail(Code::NotFound, "the files of snapshot {} are gone", snapshot.id);
    if (!dir) return fail_errno("opening snapshot {}", snapshot.id);
    if (snapshot.file.empty()) return {};
    const UniqueFd file(::openat(dir.get(), snapshot.file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return fail_errno("opening {} of snapshot {}", snapshot.file, snapshot.id);
    Sha256 hash;
    std::string buffer(std::size_t{1} << 20, '\0');
    for (;;) {
        const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading snapshot {}", snapshot.id);
        if (n == 0) break;
        hash.update({buffer.data(), static_cast<std::size_t>(n)});
    }
    // The hash knows the length, too; what a snapshot counts as its bytes is the kind's affair.
    if (hash.hex() != snapshot.sha256)
        return fail(Code::Invalid, "snapshot {} is damaged: {} has another SHA-256 than was recorded",
                    snapshot.id, snapshot.file);
    return {};
}

Result<std::vector<std::string>> list(const std::string& root)
{
    BERTH_TRY(const auto all, open_root(root));
    return list_names(all.get());
}

bool complete_name(const std::string& name) { return !name.ends_with(kUnfinished); }

Result<WallTime> changed(const std::string& root, const std::string& name)
{
    struct stat st{};
    if (::lstat((root + "/" + name).c_str(), &st) != 0) return fail_errno("looking at snapshot {}", name);
    return WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
}

} // namespace berth::payload
