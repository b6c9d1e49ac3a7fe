#pragma once

#include "server/e2b/builder.hpp"
#include "server/http/router.hpp"

namespace berth::e2b {

/// The control plane: REST under a key.
class Control {
public:
    /// What it works with; borrowed.
    struct Parts {
        Sandboxes& sandboxes;
        Templates& templates;
        Builder& builder;
        BuildFiles& files;
        Volumes& volumes;
        const Settings& settings;
    };
    explicit Control(Parts parts);

    [[nodiscard]] static bool takes(const http::RequestHead& head);
    Task<void> answer(http::Exchange& exchange);

private:
    static constexpr std::size_t kBodyLimit = std::size_t{4} << 20;

    struct Call {
        http::Exchange& exchange;
        std::string tenant;
        http::Parameters parameters;
    };
    using Answer = Result<http::Response>;
    using Handler = Task<Answer> (Control::*)(Call&);

    template <ApiVersion version> Task<Answer> create(Call& call);
    Task<Answer> list_v1(Call& call);
    Task<Answer> list_v2(Call& call);
    Task<Answer> get(Call& call);
    Task<Answer> kill(Call& call);
    template <ApiVersion version> Task<Answer> connect(Call& call);
    Task<Answer> resume(Call& call);
    Task<Answer> pause(Call& call);
    Task<Answer> set_timeout(Call& call);
    Task<Answer> refresh(Call& call);
    Task<Answer> fork(Call& call);
    Task<Answer> take_snapshot(Call& call);
    Task<Answer> list_snapshots(Call& call);
    Task<Answer> remove_template(Call& call);
    Task<Answer> list_templates(Call& call);
    Task<Answer> page_templates(Call& call);
    Task<Answer> get_template(Call& call);
    Task<Answer> change_template(Call& call);
    Task<Answer> get_alias(Call& call);
    Task<Answer> new_template(Call& call);
    Task<Answer> start_build(Call& call);
    Task<Answer> build_status(Call& call);
    Task<Answer> build_logs(Call& call);
    Task<Answer> files_link(Call& call);
    Task<Answer> add_tags(Call& call);
    Task<Answer> remove_tags(Call& call);
    Task<Answer> list_tags(Call& call);
    Task<void> take_files(http::Exchange& exchange);
    Task<Answer> set_network(Call& call);
    Task<Answer> metrics(Call& call);
    Task<Answer> metrics_of_many(Call& call);
    Task<Answer> logs_v1(Call& call);
    Task<Answer> logs_v2(Call& call);
    Task<Answer> teams(Call& call);
    Task<Answer> team_metrics(Call& call);
    Task<Answer> create_volume(Call& call);
    Task<Answer> list_volumes(Call& call);
    Task<Answer> get_volume(Call& call);
    Task<Answer> remove_volume(Call& call);

    Result<EntryPtr> entry_of(const Call& call) const;
    static Result<std::int64_t> number_of(const http::RequestHead& head, std::string_view name,
                                          std::int64_t low, std::int64_t high, std::int64_t otherwise);

    Sandboxes& sandboxes_;
    Templates& templates_;
    Builder& builder_;
    BuildFiles& files_;
    Volumes& volumes_;
    const Settings& settings_;
    http::Router<Handler> router_;
};

} // namespace berth::e2b
