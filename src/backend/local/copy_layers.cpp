#include "backend/local/copy_layers.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "backend/local/uppers.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace berth::local {

std::string copy_part(const Bind& bind)
{
    const std::string what = bind.path + std::string(1, '\0') + bind.target;
    return "c" + sha256_hex(what).substr(0, 16);
}

Status make_copy_layers(int directory, const Plan& plan)
{
    for (const Bind& bind : plan.binds) {
        if (bind.mode != Mount::Mode::Copy) continue;
        // The kernel lays no frozen layer over a directory that it lies in itself.
        if (!bind.hide.empty())
            return fail(Code::Unsupported,
                        "the state directory lies in {}, so a sandbox that is kept cannot have a copy of it: "
                        "choose a directory below it, another --data, or mount it :ro",
                        printable(bind.path));
        // On disk are the ids inside.
        const bool own = plan.identity->mode == IdMode::Own;
        BERTH_CHECK(make_upper(*plan.state, directory, plan.stack, copy_part(bind),
                               own ? std::nullopt : std::optional(kUserId)));
    }
    return {};
}

Stack copy_stack(const Plan& plan, const std::string& part)
{
    Stack out = plan.stack;
    std::erase_if(out, [&](const std::string& id) {
        struct stat st{};
        const auto path = fmt::format("{}/{}/{}", plan.state->layers(), id, part);
        return ::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode);
    });
    return out;
}

std::string overlay_flags(const Plan& plan)
{
    // On a tmpfs there is nothing to sync, and the mark costs time.
    const std::string flags = plan.durable_upper.empty() ? "" : ",volatile";
    // Layers go from one overlay to another; whatever the kernel was built for, they must not point into
    // their neighbours. With userxattr they cannot.
    return flags +
           (plan.identity->mode == IdMode::Own ? ",userxattr" : ",redirect_dir=off,metacopy=off,index=off");
}

} // namespace berth::local
