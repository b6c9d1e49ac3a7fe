// How what all kept backends share gets at a sandbox of this one.

#include <fcntl.h>

#include "backend/local/instance_lock.hpp"
#include "backend/local/local_backend_with.hpp"

namespace berth::local {

Task<Result<sys::SandboxFiles>> LocalBackend::files_of(SandboxHandle sandbox, std::string user)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.files(user); });
}

Task<Result<sys::SandboxFiles>> LocalBackend::files_to_watch(SandboxHandle sandbox, std::string user,
                                                             UniqueFd& keeper)
{
    const auto open = [&](Sandbox& s) -> Result<sys::SandboxFiles> {
        keeper.reset(::fcntl(s.keeper_descriptor(), F_DUPFD_CLOEXEC, 0));
        if (!keeper) return fail_errno("holding the keeper of {}", s.id());
        return s.files(user);
    };
    co_return co_await with(sandbox, open);
}

Task<Result<image::ReadIds>> LocalBackend::ids_of(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Sandbox& s) -> Result<image::ReadIds> { return s.shown_ids(); });
}

Task<Result<std::string>> LocalBackend::workspace(SandboxHandle sandbox)
{
    co_return co_await with(sandbox, [&](Sandbox& s) -> Result<std::string> { return s.workspace(); });
}

Task<Result<ImageDefaults>> LocalBackend::image_defaults(SandboxHandle sandbox)
{
    co_return co_await pool_.call([&]() -> Result<ImageDefaults> {
        BERTH_CHECK(check_native(sandbox.native));
        BERTH_TRY(const auto directory, open_instance(state_, sandbox.native));
        BERTH_TRY(auto instance, read_instance(directory.get()));
        // Without an image its user is the usual one, where an image that names nobody means root.
        if (!instance.layers.image) return ImageDefaults{.env = {}, .workdir = {}, .user = "user"};
        auto& [env, workdir, user] = *instance.layers.image;
        return ImageDefaults{.env = std::move(env), .workdir = std::move(workdir), .user = std::move(user)};
    });
}

Task<Result<Trees>> LocalBackend::trees_of(SandboxHandle sandbox, std::string user)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.trees(user); });
}

Task<Result<UniqueFd>> LocalBackend::dial_by_keeper(SandboxHandle sandbox, std::uint16_t port, int ip_version)
{
    co_return co_await with(sandbox, [&](Sandbox& s) { return s.dial(port, ip_version); });
}

} // namespace berth::local
