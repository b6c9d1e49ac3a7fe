#include "backend/local/layers.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/ids.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

constexpr std::string_view kPrefix = "lay_";

bool is_directory(int at, const std::string& name)
{
    struct stat st{};
    return ::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

} // namespace

std::string make_layer_id() { return std::string(kPrefix) + make_bare_id(system_clock()); }

bool is_layer_id(std::string_view id) noexcept { return is_id(id, kPrefix); }

Result<UniqueFd> open_layers(const StateDir& state)
{
    UniqueFd layers(::openat(state.fd(), "layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!layers) return fail_errno("opening {}", state.layers());
    return layers;
}

Result<UniqueFd> lock_layers(const StateDir& state, Use use, std::chrono::milliseconds patience)
{
    UniqueFd lock(
        ::openat(state.fd(), "layers.lock", O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!lock) return fail_errno("opening the lock of the layers");
    if (lock_within(lock.get(), use, patience)) return lock;
    return fail(Code::Unavailable, "{}",
                use == Use::Alone ? "snapshots are being taken or used all the time"
                                  : "unused layers are being collected");
}

Status check_depth(std::size_t layers)
{
    if (layers <= kMaxStack) return {};
    return fail(
        Code::Exhausted,
        "{} layers on top of one another are more than the {} that can be mounted: copy what is needed "
        "into a new sandbox",
        layers, kMaxStack);
}

Status check_stack(const StateDir& state, const Stack& stack)
{
    BERTH_CHECK(check_depth(stack.size()));
    if (stack.empty()) return {};
    BERTH_TRY(const auto layers, open_layers(state));
    for (const auto& id : stack) {
        if (!is_layer_id(id)) return fail(Code::Invalid, "'{}' is not the id of a layer", printable(id, 60));
        if (!is_directory(layers.get(), id + "/u1") || !is_directory(layers.get(), id + "/u2"))
            return fail(Code::NotFound, "layer {} is not here", id);
    }
    return {};
}

} // namespace berth::local
