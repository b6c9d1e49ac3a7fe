#include "cli/asked_root.hpp"

#include <unistd.h>

#include "base/strings.hpp"
#include "cli/image_root.hpp"
#include "cli/local_build.hpp"
#include "cli/session.hpp"
#include "lifecycle/begins_with.hpp"

namespace berth::cli {

namespace {

constexpr std::string_view kBuilt = "built:";

/// The template that "built:NAME", or a name alone, stands for. A path of that name is a path still.
Result<std::optional<SnapshotRecord>> find_built(const Common& common, const SandboxOptions& o)
{
    const std::optional<SnapshotRecord> none;
    const bool said = o.root.starts_with(kBuilt);
    const std::string name = said ? o.root.substr(kBuilt.size()) : o.root;
    const auto plain = check_template_name(name);
    if (said && !plain) return std::unexpected(plain.error());
    if (!plain || (o.backend != "local" && !said)) return none;
    if (o.backend != "local")
        return fail(Code::Unsupported,
                    "template {} was built for sandboxes of this machine: --backend {} "
                    "has none of these",
                    name, printable(o.backend, 40));
    BERTH_TRY(const auto data, state_path(common));
    std::optional<SnapshotRecord> found;
    if (::access((data + "/store.db").c_str(), F_OK) == 0) { // else nothing was ever built
        BERTH_TRY(const auto berth, open_berth(common, Room::Reads));
        BERTH_TRY(found, find_template(berth->store(), name));
    }
    if (!found && said)
        return fail(Code::NotFound, "no template '{}' was built here: berth template ls lists them", name);
    if (found && !said && ::access(name.c_str(), F_OK) == 0)
        return fail(Code::Conflict,
                    "template '{0}' is both one that was built here and a path: write "
                    "built:{0} or ./{0}",
                    name);
    return found;
}

} // namespace

Result<SandboxSpec> asked_spec(const Common& common, const SandboxOptions& options)
{
    BERTH_TRY(const auto built, find_built(common, options));
    if (!built) {
        BERTH_TRY(auto spec, sandbox_spec(options));
        BERTH_CHECK(use_pulled_image(common, options.backend, spec));
        return spec;
    }
    SandboxOptions rest = options;
    rest.root = "host";
    BERTH_TRY(auto spec, sandbox_spec(rest));
    spec.labels[std::string(kBeginsWithLabel)] = built->id;
    spec.root = built->spec.root;
    // What is said goes before what the template says.
    spec.env.insert(built->spec.env.begin(), built->spec.env.end());
    if (options.user.empty()) spec.user = built->spec.user;
    if (options.workdir.empty() && options.workspaces.empty()) spec.workdir = built->spec.workdir;
    return spec;
}

} // namespace berth::cli
