#include "backend/local/uppers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "backend/local/host_files.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

constexpr const char* kFiles = "fs";
constexpr const char* kNewFiles = "fs.new";
constexpr mode_t kModeBits = 07777;

struct Attributes {
    mode_t mode = 0755;
    uid_t uid = ::geteuid();
    gid_t gid = ::getegid();
};

/// Of the directory that `name` shows through from the stack. The topmost directory's attributes win in an
/// overlay, so a new upper that does not repeat them would change the sandbox.
Attributes shown_from(int layers, const Stack& stack, const std::string& name, const Attributes& none = {})
{
    struct stat st{};
    for (const auto& id : stack)
        if (::fstatat(layers, fmt::format("{}/{}", id, name).c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(st.st_mode))
            return {.mode = st.st_mode & kModeBits, .uid = st.st_uid, .gid = st.st_gid};
    return none;
}

Status make_directory_like(int at, const std::string& name, const Attributes& like)
{
    if (::mkdirat(at, name.c_str(), 0700) != 0) return fail_errno("creating the layer {}", name);
    const bool ours = like.uid == ::geteuid() && like.gid == ::getegid();
    if (!ours && ::fchownat(at, name.c_str(), like.uid, like.gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("giving away the layer {}", name);
    // Explicitly: the umask is whatever our caller has.
    if (::fchmodat(at, name.c_str(), like.mode, 0) != 0) return fail_errno("opening the layer {}", name);
    return {};
}

Status make_work_directories(int files)
{
    for (const char* name : {"w1", "w2"})
        if (::mkdirat(files, name, 0755) != 0 && errno != EEXIST)
            return fail_errno("creating the work directory {}", name);
    return {};
}

Result<UniqueFd> open_directory(int at, const char* name)
{
    UniqueFd fd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {} of a sandbox", name);
    return fd;
}

Status make_etc_file(int files, const std::string& name, std::string_view text, mode_t mode)
{
    const UniqueFd file(
        ::openat(files, ("u1/" + name).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode));
    if (!file || ::fchmod(file.get(), mode) != 0) return fail_errno("creating /{}", name);
    return write_all(file.get(), text);
}

constexpr char kWork = 'w';

Result<std::vector<std::string>> list_work_directories(int files)
{
    BERTH_TRY(auto names, list_names(files));
    std::erase_if(names, [](const std::string& name) { return !name.starts_with(kWork); });
    return names;
}

/// `fresh`: of a new sandbox.
Status make(const StateDir& state, int directory, const Stack& stack, const SandboxSpec* fresh)
{
    BERTH_TRY(const auto layers, open_layers(state));
    if (::mkdirat(directory, kNewFiles, 0755) != 0) {
        if (errno != EEXIST) return fail_errno("creating the layers of a sandbox");
        BERTH_CHECK(sys::remove_tree(directory, kNewFiles)); // of somebody who was killed
        if (::mkdirat(directory, kNewFiles, 0755) != 0) return fail_errno("creating the layers of a sandbox");
    }
    BERTH_TRY(const auto files, open_directory(directory, kNewFiles));
    for (const char* name : {"u1", "u2"})
        BERTH_CHECK(make_directory_like(files.get(), name, shown_from(layers.get(), stack, name)));
    BERTH_CHECK(make_work_directories(files.get()));
    if (fresh != nullptr) {
        BERTH_CHECK(make_directory_like(files.get(), "u1/etc", shown_from(layers.get(), stack, "u1/etc")));
        BERTH_CHECK(make_etc_file(files.get(), "etc/machine-id", random_hex(16) + "\n", 0444));
        for (const auto& file : host_files(state, stack, *fresh))
            BERTH_CHECK(make_etc_file(files.get(), file.path, file.text, 0644));
    }
    if (::renameat2(directory, kNewFiles, directory, kFiles, RENAME_NOREPLACE) != 0)
        return fail_errno("naming the layers of a sandbox");
    return {};
}

} // namespace

Status make_uppers(const StateDir& state, int directory, const Stack& stack)
{
    return make(state, directory, stack, nullptr);
}

Status make_uppers(const StateDir& state, int directory, const Stack& stack, const SandboxSpec& spec)
{
    return make(state, directory, stack, &spec);
}

Status make_upper(const StateDir& state, int directory, const Stack& stack, const std::string& part,
                  std::optional<std::uint32_t> owner)
{
    BERTH_TRY(const auto files, open_directory(directory, kFiles));
    const std::string work = kWork + part;
    if (::mkdirat(files.get(), work.c_str(), 0755) != 0 && errno != EEXIST)
        return fail_errno("creating the work directory {}", work);
    if (::faccessat(files.get(), part.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return {};
    Attributes none;
    if (owner) none.uid = none.gid = *owner;
    BERTH_TRY(const auto layers, open_layers(state));
    const std::string making = work + ".new"; // there with its owner, or not at all
    BERTH_CHECK(sys::remove_tree(files.get(), making));
    BERTH_CHECK(make_directory_like(files.get(), making, shown_from(layers.get(), stack, part, none)));
    if (::renameat2(files.get(), making.c_str(), files.get(), part.c_str(), RENAME_NOREPLACE) != 0)
        return fail_errno("naming the layer {}", part);
    return {};
}

Result<std::vector<std::string>> list_parts(int files)
{
    BERTH_TRY(auto names, list_names(files));
    std::erase_if(names, [](const std::string& name) { return name.starts_with(kWork); });
    return names;
}

Status sync_file_system(int directory)
{
    if (::syncfs(directory) != 0) return fail_errno("syncing the files of a sandbox");
    return {};
}

Status remove_marks(int directory)
{
    BERTH_TRY(const auto files, open_directory(directory, kFiles));
    BERTH_CHECK(make_work_directories(files.get())); // a freeze that was killed may have removed them
    BERTH_TRY(const auto names, list_work_directories(files.get()));
    for (const auto& name : names) {
        BERTH_TRY(const auto work, open_directory(files.get(), name.c_str()));
        // The kernel makes it again; what else lies in it are copies that were never finished.
        BERTH_CHECK(sys::remove_tree(work.get(), "work"));
    }
    return {};
}

Status freeze_uppers(const StateDir& state, int directory, const std::string& layer)
{
    BERTH_TRY(const auto layers, open_layers(state));
    {
        BERTH_TRY(const auto files, open_directory(directory, kFiles));
        BERTH_TRY(const auto names, list_work_directories(files.get()));
        for (const auto& name : names) BERTH_CHECK(sys::remove_tree(files.get(), name));
    }
    if (::renameat2(directory, kFiles, layers.get(), layer.c_str(), RENAME_NOREPLACE) != 0)
        return fail_errno("naming the layer {}", layer);
    return {};
}

bool has_layer(const StateDir& state, const std::string& layer)
{
    const auto layers = open_layers(state);
    return layers && ::faccessat(layers->get(), layer.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

} // namespace berth::local
