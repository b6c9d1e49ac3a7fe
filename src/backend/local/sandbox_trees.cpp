#include <fcntl.h>
#include <unistd.h>

#include "backend/local/environment.hpp"
#include "backend/local/sandbox.hpp"
#include "keeping/places.hpp"

namespace berth::local {

image::ReadIds Sandbox::shown_ids() const
{
    constexpr std::uint32_t range = 65536;
    const auto& identity = prepared_->identity;
    if (identity.mode == IdMode::Mapped) {
        const auto first = identity.outside(0);
        return {.first_uid = first, .first_gid = first, .count = range};
    }
    if (identity.mode == IdMode::Own && prepared_->plan.layers.kind != Template::Kind::Live)
        return {.first_uid = ::geteuid(), .first_gid = ::getegid(), .count = 1, .shown = kUserId};
    return {};
}

std::string Sandbox::workspace() const
{
    const auto& image = prepared_->plan.layers.image;
    return keeping::workspace_of(spec(), image ? image->workdir : std::string{}, prepared_->user);
}

/// Root of a mapped sandbox may read what belongs to any of its users, because its capabilities hold for
/// their ids. A thread of ours has none inside, so one keeps the right to read everything, and the reader
/// asks whose each file is.
Result<Trees> Sandbox::trees(const std::string& user) const
{
    const auto& identity = prepared_->identity;
    Account account = prepared_->user;
    if (!user.empty()) {
        BERTH_TRY(account, asked_account(user, prepared_->plan.layers, identity));
    }
    BERTH_TRY(auto own, files(user));
    Trees out{.files = std::move(own), .reader = std::nullopt, .ids = shown_ids()};
    if (identity.mode != IdMode::Mapped || account.uid != 0) return out;
    const auto first = identity.outside(0);
    BERTH_TRY(auto root, open_of_keeper("root", O_RDONLY | O_DIRECTORY));
    const sys::FileCredentials all{
        .uid = first, .gid = identity.outside(account.gid), .groups = {}, .reads_all = true};
    BERTH_TRY(out.reader, sys::SandboxFiles::open(std::move(root), all));
    out.ids.only_these = true;
    return out;
}

} // namespace berth::local
