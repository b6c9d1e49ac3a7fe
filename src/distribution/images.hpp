#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "distribution/registry.hpp"
#include "image/cache.hpp"

namespace berth::distribution {

/// An image on this machine.
struct KeptImage {
    std::string name; ///< in full; empty: fetched for somebody, without a name here
    std::string digest;
    std::string path; ///< a layout, or an archive of one: what a template "oci:PATH[:TAG]" takes
    std::string tag;  ///< of several in it; may be empty
    std::uint64_t bytes = 0;
    WallTime created{};
};

/// What is fetched, and how far it is.
using FetchProgress = std::function<void(const std::string& what, std::uint64_t have, std::uint64_t of)>;

struct FetchWish {
    Reference reference;
    Login login{};
    FetchProgress progress{};
    std::chrono::nanoseconds patience = std::chrono::minutes(20);
    std::stop_token stop{}; ///< asked for by whoever cannot wait any longer
};

/// The images of a state directory, each under its digest and so once, whatever names it has.
class Images {
public:
    /// `data` is the state directory.
    [[nodiscard]] static Result<Images> open(const std::string& data);

    /// Asks the registry what the name means now, and fetches what is not there. The registry is always
    /// asked: that an image was fetched for one does not mean that another may have it.
    [[nodiscard]] Result<KeptImage> fetch(const FetchWish& wish) const;
    /// The same, and it has the name from now on.
    [[nodiscard]] Result<KeptImage> pull(const FetchWish& wish) const;

    /// One that lies here as a layout or an archive (`docker save`), copied and under a name from now on.
    [[nodiscard]] Result<KeptImage> import(const Reference& reference, const std::string& path,
                                           const std::string& tag) const;

    /// One that pull() or import() has named.
    [[nodiscard]] Result<std::optional<KeptImage>> find(const Reference& reference) const;
    /// All that have a name, by name; then those without.
    [[nodiscard]] Result<std::vector<KeptImage>> list() const;
    /// Its name, and the files when no other name stands for them. What uses it is the caller's to know.
    [[nodiscard]] Status remove(const KeptImage& image) const;
    /// What killed processes left.
    [[nodiscard]] Status sweep() const;

private:
    explicit Images(image::Cache cache) : cache_(std::move(cache)) {}
    [[nodiscard]] Result<std::optional<KeptImage>> at(const std::string& digest) const;
    [[nodiscard]] Result<KeptImage> give_name(KeptImage image, const Reference& reference) const;

    image::Cache cache_;
};

} // namespace berth::distribution
