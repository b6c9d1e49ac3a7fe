#pragma once

#include <map>
#include <optional>

#include "server/e2b/built.hpp"
#include "server/e2b/template_name.hpp"
#include "server/gate/documents.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// The templates tenants have built. Each is a file, and what it consists of a snapshot; a build that did not
/// end well leaves neither. For the server's one thread.
class Templates {
public:
    explicit Templates(gate::Ground& ground);

    /// Reads what an earlier server left; builds it did not finish have failed.
    Task<Status> load();

    /// A template and one of its builds.
    struct One {
        BuiltPtr built;
        BuildPtr build;
    };
    /// A new build of the tenant's template of that name, which is made where there is none.
    Task<Result<One>> enrol(NewTemplate wish, std::string tenant);

    /// By id or alias; NotFound also for somebody else's.
    [[nodiscard]] Result<BuiltPtr> of_tenant(std::string_view name, const std::string& tenant) const;
    [[nodiscard]] Result<One> build_of(std::string_view id, std::string_view build,
                                       const std::string& tenant) const;
    [[nodiscard]] std::vector<BuiltPtr> all(const std::string& tenant) const;
    /// The ready build a name means; nothing: the tenant has no such template.
    [[nodiscard]] std::optional<One> find(const TemplateName& name, const std::string& tenant) const;

    /// A build that was ready or failed: written down, its tags moved, and what no tag names any more
    /// removed.
    Task<Status> finish(One one);
    Task<Status> save(const Built& built);
    Task<Status> tag(BuiltPtr built, BuildPtr build, std::vector<std::string> tags);
    Task<Status> untag(BuiltPtr built, std::vector<std::string> tags);
    Task<Status> remove(BuiltPtr built);

    /// From `offset` on; of an ended build as it is kept.
    Task<Result<std::vector<BuildLine>>> log(BuildPtr build);

    static constexpr std::string_view kBuildKey = "e2b-build:"; ///< of the sandbox a build runs in

private:
    Task<Status> drop_unnamed(Built& built);
    Task<Status> clear(BuildPtr build, std::string why);
    Task<Status> keep_log(const Build& build);

    gate::Ground& ground_;
    gate::Documents documents_;
    std::map<std::string, BuiltPtr, std::less<>> templates_; ///< by id
};

/// The note of a template's snapshot: whoever collects snapshots leaves such alone.
[[nodiscard]] std::string note_of(const Build& build);

} // namespace berth::e2b
