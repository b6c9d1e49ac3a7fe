#include "backend/local/host_files.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "base/io.hpp"
#include "image/host_names.hpp"
#include "sys/sandbox_files.hpp"

namespace berth::local {

namespace {

constexpr Bytes kLargest = 4_KiB; ///< ours are far smaller

std::vector<HostFile> files_of(const std::string& name)
{
    return {{image::kHostsPath, image::hosts_file(name)},
            {image::kHostNamePath, image::host_name_file(name)}};
}

/// Of the topmost layer that has one; empty text: it is no file that can be ours. Nothing: the template's own
/// shows through. Whoever was in the sandbox made what lies there.
std::optional<std::string> shown_hosts(const StateDir& state, const Stack& stack)
{
    const auto layers = open_layers(state);
    if (!layers) return std::string{};
    for (const auto& id : stack) {
        open_how how{};
        how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
        const auto path = fmt::format("{}/u1/{}", id, image::kHostsPath);
        const UniqueFd file(
            static_cast<int>(::syscall(SYS_openat2, layers->get(), path.c_str(), &how, sizeof how)));
        if (!file && errno == ENOENT) continue;
        struct stat st{};
        if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return std::string{};
        return read_to_end(file.get(), kLargest, image::kHostsPath).value_or(std::string{});
    }
    return std::nullopt;
}

} // namespace

std::vector<HostFile> host_files(const StateDir& state, const Stack& stack, const SandboxSpec& spec)
{
    if (spec.root.kind != Template::Kind::Host) return {};
    const std::string name = host_name(spec);
    const auto shown = shown_hosts(state, stack).value_or(image::hosts_file("sandbox"));
    if (shown == image::hosts_file(name) || !image::is_our_hosts_file(shown)) return {};
    return files_of(name);
}

Result<bool> own_host_files(const sys::SandboxFiles& files, const SandboxSpec& spec)
{
    if (spec.root.kind != Template::Kind::Host) return false;
    const auto shown = files.read(fmt::format("/{}", image::kHostsPath), kLargest);
    if (!shown || !image::is_our_hosts_file(*shown)) return false;
    for (const auto& file : files_of(host_name(spec)))
        BERTH_CHECK(files.write("/" + file.path, file.text, {.mode = 0644}));
    return true;
}

Status rename_host_files(const sys::SandboxFiles& files, const SandboxSpec& spec)
{
    return files.run([&](int root) -> Status {
        for (const auto& file : files_of(host_name(spec))) {
            open_how how{};
            how.flags = O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW;
            how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
            const UniqueFd to(
                static_cast<int>(::syscall(SYS_openat2, root, file.path.c_str(), &how, sizeof how)));
            if (!to) return fail_errno("naming the sandbox in /{}", file.path);
            BERTH_CHECK(write_all(to.get(), file.text));
        }
        return {};
    });
}

} // namespace berth::local
