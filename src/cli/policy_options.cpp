#include "cli/policy_options.hpp"

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "policy/document.hpp"

namespace berth::cli {

void add_policy_options(CLI::App& app, PolicyOptions& options)
{
    const char* group = "What it may touch";
    app.add_option("--policy", options.policy,
                   "A preset (sandbox, read-only, workspace-write, full-access) or a file")
        ->type_name("NAME|FILE")
        ->group(group);
    app.add_option("--net", options.net, "off (default) or host")->type_name("MODE")->group(group);
    app.add_option("--memory", options.memory, "Memory limit, like 2GiB")->type_name("SIZE")->group(group);
    app.add_option("--cpus", options.cpus, "CPU limit, like 1.5")->type_name("N")->group(group);
    app.add_option("--pids", options.pids, "Process limit (default 4096)")->type_name("N")->group(group);
    app.add_option("--disk", options.disk,
                   "Size of the private file system (default a quarter of the memory)")
        ->type_name("SIZE")
        ->group(group);
    app.add_option("--open-files", options.open_files, "Open files of each process (default 20000)")
        ->type_name("N")
        ->group(group);
    app.add_option("--limits", options.limits,
                   "enforce (default: refuse what cannot be held) or best-effort (start anyway and say so)")
        ->type_name("MODE")
        ->group(group);
}

Status apply(const PolicyOptions& options, SandboxSpec& spec)
{
    BERTH_TRY(spec.policy, policy::load(options.policy.empty() ? "sandbox" : options.policy));
    auto& limits = spec.policy.limits;
    if (!options.net.empty()) {
        if (options.net == "off")
            spec.policy.network = policy::Network::Off;
        else if (options.net == "host")
            spec.policy.network = policy::Network::Host;
        else if (options.net == "open")
            spec.policy.network = policy::Network::Open;
        else if (options.net == "allow")
            return fail(Code::Invalid, "--net allow needs a list of hosts: write it in a policy file");
        else
            return fail(Code::Invalid, "bad network '{}': off or host", printable(options.net, 40));
    }
    if (!options.memory.empty()) {
        BERTH_TRY(limits.memory, parse_bytes(options.memory));
        if (*limits.memory < 1_MiB)
            return fail(Code::Invalid, "memory limit {} is too small to start anything", options.memory);
    }
    if (!options.cpus.empty()) {
        char* end = nullptr;
        const double cpus = std::strtod(options.cpus.c_str(), &end);
        if (end == options.cpus.c_str() || *end != '\0' || !(cpus >= 0.01 && cpus <= 4096))
            return fail(Code::Invalid, "bad number of cpus '{}': write it like 1.5",
                        printable(options.cpus, 40));
        limits.cpus = cpus;
    }
    if (!options.pids.empty()) {
        BERTH_TRY(const auto pids, parse_int(options.pids, 2, 4'194'304, "process limit"));
        limits.pids = static_cast<std::uint64_t>(pids);
    }
    if (!options.disk.empty()) {
        BERTH_TRY(limits.disk, parse_bytes(options.disk));
        if (*limits.disk < 1_MiB)
            return fail(Code::Invalid, "disk limit {} is too small to start anything", options.disk);
    }
    if (!options.open_files.empty()) {
        BERTH_TRY(const auto files, parse_int(options.open_files, 16, 1'048'576, "open files limit"));
        limits.open_files = static_cast<std::uint64_t>(files);
    }
    if (options.limits == "best-effort")
        spec.limit_mode = LimitMode::BestEffort;
    else if (options.limits != "enforce")
        return fail(Code::Invalid, "bad --limits '{}': enforce or best-effort",
                    printable(options.limits, 40));
    return {};
}

} // namespace berth::cli
