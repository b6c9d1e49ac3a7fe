#include "image/oci_choose.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <set>

#include <fmt/ranges.h>

#include "base/strings.hpp"

namespace berth::image::oci {

namespace {

constexpr std::size_t kMostListed = 20;

/// Names for an error, each once, not too many.
std::string listed(const std::set<std::string>& names)
{
    if (names.empty()) return "none has a name";
    std::vector<std::string> shown;
    for (const auto& name : names) {
        if (shown.size() == kMostListed) {
            shown.emplace_back("...");
            break;
        }
        shown.push_back(printable(name, 100));
    }
    return fmt::format("{}", fmt::join(shown, ", "));
}

bool named(const std::vector<std::string>& names, std::string_view wanted)
{
    return std::ranges::any_of(names, [&](const std::string& name) { return answers_to(name, wanted); });
}

/// A variant above the first needs instructions that this machine may lack.
bool runs_here(const Descriptor& one, const std::string& architecture)
{
    if (!one.os.empty() && one.os != "linux") return false;
    if (!one.architecture.empty() && one.architecture != architecture) return false;
    return one.variant.empty() || one.variant == "v1" || one.variant == "v8";
}

/// Empty where all of them are one image.
std::set<std::string> different_images(const std::vector<Descriptor>& all)
{
    std::set<std::string> digests;
    std::set<std::string> names;
    for (const auto& one : all) {
        digests.insert(one.sha256);
        names.insert(one.names.empty() ? "one without a name" : one.names.front());
    }
    return digests.size() > 1 && names.size() > 1 ? names : std::set<std::string>{};
}

} // namespace

std::string machine_architecture()
{
    struct utsname kernel{};
    if (::uname(&kernel) != 0) return "unknown";
    const std::string_view machine = &kernel.machine[0];
    constexpr std::array kNames = std::to_array<std::pair<std::string_view, std::string_view>>({
        {"x86_64", "amd64"},
        {"aarch64", "arm64"},
        {"loongarch64", "loong64"},
    });
    for (const auto& [ours, theirs] : kNames)
        if (machine == ours) return std::string(theirs);
    return std::string(machine); // riscv64, ppc64le and s390x are the same word
}

bool answers_to(std::string_view name, std::string_view wanted)
{
    if (name == wanted) return true;
    for (const std::string_view registry : {"docker.io/library/", "docker.io/"})
        if (name.starts_with(registry) && name.substr(registry.size()) == wanted) return true;
    const auto colon = name.rfind(':');
    return colon != std::string_view::npos && name.find('/', colon) == std::string_view::npos &&
           name.substr(colon + 1) == wanted;
}

Result<Descriptor> choose(const std::vector<Descriptor>& index, const std::string& tag,
                          const std::string& architecture)
{
    std::set<std::string> names;
    std::set<std::string> platforms;
    std::vector<Descriptor> wanted;
    std::vector<Descriptor> fitting;
    for (const auto& one : index) {
        if (one.attestation) continue;
        names.insert(one.names.begin(), one.names.end());
        if (!tag.empty() && !named(one.names, tag)) continue;
        if (one.kind != Descriptor::Kind::Index && one.kind != Descriptor::Kind::Manifest)
            return fail(Code::Unsupported, "manifests of type '{}' cannot be read",
                        printable(one.media_type, 120));
        wanted.push_back(one);
        platforms.insert(one.platform());
        if (runs_here(one, architecture)) fitting.push_back(one);
    }
    if (wanted.empty() && !tag.empty())
        return fail(Code::NotFound, "no image '{}'; there is: {}", printable(tag, 100), listed(names));
    if (wanted.empty()) return fail(Code::Invalid, "the index names no image");
    if (fitting.empty())
        return fail(Code::Unsupported, "no image for linux/{}; there is: {}", architecture,
                    listed(platforms));
    if (const auto several = different_images(fitting); !several.empty())
        return fail(Code::Invalid, "several images: name one of {}", listed(several));
    return *std::ranges::min_element(fitting, {}, &Descriptor::variant);
}

Result<ArchivedImage> choose(const std::vector<ArchivedImage>& images, const std::string& tag)
{
    std::set<std::string> names;
    std::vector<ArchivedImage> wanted;
    for (const auto& one : images) {
        names.insert(one.names.begin(), one.names.end());
        if (tag.empty() || named(one.names, tag)) wanted.push_back(one);
    }
    if (wanted.empty() && !tag.empty())
        return fail(Code::NotFound, "no image '{}'; there is: {}", printable(tag, 100), listed(names));
    if (wanted.empty()) return fail(Code::Invalid, "the archive names no image");
    if (wanted.size() > 1) return fail(Code::Invalid, "several images: name one of {}", listed(names));
    return wanted.front();
}

Status check_platform(const std::string& os, const std::string& architecture, const std::string& ours)
{
    const Descriptor told{.os = os, .architecture = architecture};
    if (runs_here(told, ours)) return {};
    return fail(Code::Unsupported, "it is an image for {}, and this machine is linux/{}",
                printable(told.platform(), 80), ours);
}

} // namespace berth::image::oci
