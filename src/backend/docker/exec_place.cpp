#include "backend/docker/exec_place.hpp"

#include "base/strings.hpp"

namespace berth::docker {

std::vector<std::string> environment_of(const Instance& instance, const ExecSpec& exec,
                                        const keeping::Account& user)
{
    std::map<std::string, std::string> all{
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", user.home},
        {"USER", user.name},
        {"LOGNAME", user.name},
        {"SHELL", user.shell},
        {"LANG", "C.UTF-8"},
        {"BERTH_SANDBOX", instance.spec.id},
    };
    if (exec.terminal) all["TERM"] = "xterm-256color";
    for (const auto& [name, value] : instance.defaults.env) all[name] = value;
    for (const auto& [name, value] : instance.spec.env) all[name] = value;
    for (const auto& [name, value] : exec.env) all[name] = value;
    std::vector<std::string> out;
    for (const auto& [name, value] : all) out.push_back(name + "=" + value);
    return out;
}

std::string workdir_of(const Instance& instance, const keeping::Account& user)
{
    if (!instance.spec.workdir.empty()) return instance.spec.workdir;
    for (const auto& mount : instance.spec.mounts)
        if (mount.workspace) return mount.target;
    if (!instance.defaults.workdir.empty()) return instance.defaults.workdir;
    return user.home;
}

Result<keeping::Account> account_of(const Instance& instance, const std::string& asked,
                                    const keeping::EtcReader& etc)
{
    const std::string& wanted = asked.empty() ? instance.spec.user : asked;
    if (wanted != "user") return keeping::find_account(wanted, etc);
    BERTH_TRY(auto account, keeping::image_account(instance.defaults.user, etc));
    if (asked.empty() || account.name == "user") return account;
    return fail(Code::NotFound, "the image has no account 'user': without --user it is {}",
                printable(account.name, 64));
}

std::string describe(const keeping::Account& account)
{
    return fmt::format("{}, uid {}", printable(account.name, 64), account.uid);
}

} // namespace berth::docker
