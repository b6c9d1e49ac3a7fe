#include "backend/local/environment.hpp"

#include "base/strings.hpp"

#include <unistd.h>

#include <map>

namespace berth::local {

Result<Account> account_for(const std::string& user, const RootLayers& layers, const Identity& identity)
{
    const bool live = layers.kind == Template::Kind::Live;
    // The live view knows the host's accounts; ours is the natural one there.
    const std::string wanted =
        live && user == "user" && identity.mode == IdMode::Own ? std::to_string(::geteuid()) : user;
    const bool of_image = layers.image && user == "user";
    BERTH_TRY(auto account, of_image ? image_account(layers.image->user, layers.stack())
                                     : find_account(wanted, layers.stack()));
    // There is one id: it does the work of whatever user the image names.
    if (of_image && identity.mode == IdMode::Own && account.uid != kUserId) account = Account{.name = "user"};
    // Nothing can be made in a live view: an account without a home there starts at the root.
    if (live && ::access(account.home.c_str(), F_OK) != 0) account.home = "/";
    if (identity.mode != IdMode::Own) return account;
    const std::uint32_t only = live ? ::geteuid() : kUserId;
    if (account.uid != only)
        return fail(Code::Unsupported,
                    "user {} cannot be had: an ordinary user's sandbox has the one user {}; run berth as "
                    "root for more",
                    user, only);
    if (live) account.gid = ::getegid();
    return account;
}

Result<Account> asked_account(const std::string& user, const RootLayers& layers, const Identity& identity)
{
    BERTH_TRY(auto account, account_for(user, layers, identity));
    if (layers.image && user == "user" && account.name != "user")
        return fail(Code::NotFound, "the image has no account 'user': without --user it is {}",
                    printable(account.name, 64));
    return account;
}

std::vector<std::string> environment(const SandboxSpec& spec, const ExecSpec& exec, const Account& user,
                                     const RootLayers& layers)
{
    std::map<std::string, std::string> all{
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", user.home},
        {"USER", user.name},
        {"LOGNAME", user.name},
        {"SHELL", user.shell},
        {"LANG", "C.UTF-8"},
        {"BERTH_SANDBOX", spec.id},
    };
    if (exec.terminal) all["TERM"] = "xterm-256color";
    if (layers.image)
        for (const auto& [name, value] : layers.image->env) all[name] = value;
    for (const auto& [name, value] : spec.env) all[name] = value;
    for (const auto& [name, value] : exec.env) all[name] = value;
    std::vector<std::string> out;
    out.reserve(all.size());
    for (const auto& [name, value] : all) out.push_back(name + "=" + value);
    return out;
}

std::string working_directory(const SandboxSpec& spec, const ExecSpec& exec, const Account& user,
                              const RootLayers& layers)
{
    if (!exec.cwd.empty()) return exec.cwd;
    if (!spec.workdir.empty()) return spec.workdir;
    for (const auto& mount : spec.mounts)
        if (mount.workspace) return mount.target;
    if (layers.image && !layers.image->workdir.empty()) return layers.image->workdir;
    return user.home;
}

} // namespace berth::local
