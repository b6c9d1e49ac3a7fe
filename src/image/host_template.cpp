#include "image/host_template.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "image/host_fingerprint.hpp"
#include "image/skeleton.hpp"
#include "image/usr_mask.hpp"

namespace berth::image {

namespace {

constexpr int kAttempts = 3;

std::string name_of(const std::string& fingerprint) { return "host-" + fingerprint; }

Result<UniqueFd> make_layer(int dir, const char* name)
{
    if (::mkdirat(dir, name, 0755) != 0) return fail_errno("creating {}", name);
    UniqueFd layer(::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!layer) return fail_errno("opening {}", name);
    if (::fchmod(layer.get(), 0755) != 0) return fail_errno("setting the mode of {}", name);
    return layer;
}

/// Fills the directory of the template and answers with its record.
Result<std::string> fill(int dir, int host_root, const Progress& progress)
{
    BERTH_TRY(const Ids ids, ids_possible_in(dir));
    BERTH_TRY(const UniqueFd skeleton, make_layer(dir, "skeleton"));
    BERTH_TRY(const bool devices, make_skeleton(skeleton.get(), host_root, ids, progress));
    hooks::kill_point("template:skeleton-made");

    json::Array masked;
    if (ids == Ids::Sandbox) {
        BERTH_TRY(const UniqueFd mask, make_layer(dir, "usr-mask"));
        BERTH_TRY(const auto hidden, make_usr_mask(mask.get(), host_root));
        for (const auto& path : hidden) masked.emplace_back(printable_utf8(path));
    }
    hooks::kill_point("template:mask-made");
    return json::dump(json::Object{{"ids", ids == Ids::Sandbox ? "sandbox" : "maker"},
                                   {"devices", devices},
                                   {"masked", std::move(masked)}});
}

Result<HostTemplate> read_record(const std::string& cache_dir, const std::string& fingerprint,
                                 const std::string& text)
{
    BERTH_TRY(const json::Value document, json::parse(text));
    const json::Reader record(document);
    BERTH_TRY(const auto ids, record.at("ids"));
    BERTH_TRY(const auto devices, record.at("devices"));
    BERTH_TRY(const auto masked, record.at("masked"));

    HostTemplate made;
    made.dir = cache_dir + "/" + name_of(fingerprint);
    made.skeleton = made.dir + "/skeleton";
    made.fingerprint = fingerprint;
    BERTH_TRY(const std::string whose, ids.string());
    made.ids = whose == "sandbox" ? Ids::Sandbox : Ids::Maker;
    BERTH_TRY(made.devices, devices.boolean());
    BERTH_TRY(made.masked, masked.strings());
    if (!made.masked.empty()) made.usr_mask = made.dir + "/usr-mask";
    return made;
}

Result<std::optional<HostTemplate>> find(const Cache& cache, const std::string& fingerprint)
{
    BERTH_TRY(const auto text, cache.find(name_of(fingerprint)));
    if (!text) return std::nullopt;
    auto found = read_record(cache.path(), fingerprint, *text);
    if (!found)
        return std::unexpected(std::move(found).error().while_doing(
            fmt::format("reading {}/{}/ready", cache.path(), name_of(fingerprint))));
    return *std::move(found);
}

} // namespace

Result<HostTemplate> ensure_host_template(const std::string& cache_dir, const Progress& progress,
                                          const std::string& host_root)
{
    BERTH_TRY(const Cache cache, Cache::open(cache_dir));
    BERTH_TRY(const UniqueFd root, open_dir(host_root));
    {
        BERTH_TRY(auto found, find(cache, host_fingerprint(root.get())));
        if (found) return *std::move(found);
    }

    BERTH_TRY(const CacheLock lock, cache.lock("host", progress));
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const std::string fingerprint = host_fingerprint(root.get());
        BERTH_TRY(auto found, find(cache, fingerprint));
        if (found) return *std::move(found);

        if (progress) progress("making template 'host' from " + host_root + " (once for this state of it)");
        bool changed = false;
        auto made = cache.make(lock, name_of(fingerprint), [&](int dir) -> Result<std::string> {
            BERTH_TRY(std::string record, fill(dir, root.get(), progress));
            // A package manager at work: what was looked at first may be stale already.
            changed = host_fingerprint(root.get()) != fingerprint;
            if (changed) return fail(Code::Unavailable, "{} changed meanwhile", host_root);
            return record;
        });
        if (changed) continue;
        if (!made) return std::unexpected(std::move(made).error().while_doing("making template 'host'"));
        BERTH_TRY(found, find(cache, fingerprint));
        if (found) return *std::move(found);
    }
    return fail(Code::Unavailable,
                "{} keeps changing (a package manager at work?): template 'host' cannot be made now",
                host_root);
}

} // namespace berth::image
