// Commands and files here are a client's. They run inside a sandbox of the tenant's own and are never looked
// at by anything of ours: paths go to the backend, which resolves them inside, or to a shell inside as
// arguments.

#include "server/e2b/builder.hpp"

#include <unistd.h>

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/brief.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "distribution/images.hpp"
#include "server/e2b/account.hpp"
#include "server/e2b/build_log.hpp"
#include "server/e2b/build_words.hpp"
#include "server/e2b/sandboxes_held.hpp"
#include "server/e2b/start_command.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kBuildTime = 30min;
constexpr auto kReadyTime = 5min;
constexpr auto kStopGrace = 2s;
constexpr std::size_t kAtOnce = 4;           // builds that run
constexpr std::size_t kMostOfOneTenant = 20; // that run or wait for their turn
constexpr std::size_t kLargestValue = std::size_t{64} << 10;

bool is_base_image(std::string_view image)
{
    return image.empty() || image == kBaseTemplate || image == "e2bdev/base" ||
           image.starts_with("e2bdev/base:");
}

} // namespace

struct Builder::Work {
    Templates::One one;
    BuildStart wish;
    BuildLog log;
    SandboxRecord record;
    BuildDefaults state;       ///< as the steps so far have it
    std::string root = "root"; ///< who may do everything inside
    SteadyTime until{};
    std::string where; ///< the step that is at work, as the client counts them

    [[nodiscard]] std::string directory() const
    {
        return state.workdir.empty() ? "/home/user" : state.workdir;
    }
};

Task<Status> Builder::start(Templates::One one, BuildStart wish)
{
    if (one.build->state != BuildState::Waiting)
        co_return fail(Code::Conflict, "build {} was started before", one.build->id);
    std::size_t busy = 0;
    for (const auto& built : templates_.all(one.built->tenant))
        busy += static_cast<std::size_t>(std::ranges::count_if(
            built->builds, [](const auto& build) { return build->state == BuildState::Building; }));
    if (busy >= kMostOfOneTenant)
        co_return fail(Code::Exhausted, "{} templates are being built: wait for some to end", busy);
    one.build->state = BuildState::Building;
    if (auto saved = co_await templates_.save(*one.built); !saved) {
        one.build->state = BuildState::Waiting;
        co_return saved;
    }
    asio::co_spawn(co_await asio::this_coro::executor, carry_out(std::move(one), std::move(wish)),
                   asio::detached);
    co_return Status{};
}

Task<void> Builder::carry_out(Templates::One one, BuildStart wish)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (running_ >= kAtOnce && !one.build->cancelled && !sandboxes_.leaving()) {
        timer.expires_after(50ms);
        co_await timer.async_wait(as_value);
    }
    ++running_;
    const ScopeExit done([&] { --running_; });
    Work work{.one = one,
              .wish = std::move(wish),
              .log = BuildLog(one.build),
              .record = {},
              .state = {},
              .until = system_clock().steady() + kBuildTime,
              .where = "base"};
    auto built = co_await steps(work);
    // Whoever comes next finds the build unfinished, and clears it away.
    if (sandboxes_.leaving()) co_return;
    auto& build = *one.build;
    if (!built) {
        build.failure = printable_utf8(built.error().message);
        if (build.failure.empty()) build.failure = "the build failed";
        build.failed_step = work.where;
        work.log.add("error", built.error().message, work.where);
    } else {
        build.defaults = work.state;
        work.log.add("info", "the template is ready");
    }
    if (!work.record.id().empty())
        if (auto gone = co_await ground_.berth.lifecycle().destroy(work.record.id()); !gone)
            log::warn("a build's sandbox could not be removed", {{"why", gone.error().line()}});
    if (auto saved = co_await templates_.finish(one); !saved) {
        build.state = BuildState::Error;
        build.failure = saved.error().message;
        log::warn("a build could not be kept", {{"build", build.id}, {"why", saved.error().line()}});
    }
}

Task<Status> Builder::steps(Work& work)
{
    if (work.one.build->cancelled) co_return fail(Code::Conflict, "the template was removed");
    BERTH_CO_CHECK(co_await base(work));
    std::size_t number = 0;
    for (const auto& step : work.wish.steps) {
        work.where = std::to_string(++number);
        work.log.begin(fmt::format("[builder {}/{}]", number, work.wish.steps.size()), work.where);
        work.log.add("info", to_string(step));
        BERTH_CO_CHECK(co_await this->step(work, step));
        if (work.one.build->cancelled) co_return fail(Code::Conflict, "the template was removed");
    }
    work.where = "finalize";
    work.log.begin("[finalize]", work.where);
    co_return co_await finalize(work);
}

Task<Status> Builder::base(Work& work)
{
    work.log.begin("[base]", work.where);
    auto& lifecycle = ground_.berth.lifecycle();
    const auto& build = *work.one.build;
    const auto key = fmt::format("{}{}", Templates::kBuildKey, build.id);
    const auto name = "b" + build.id.substr(0, 8) + build.id.substr(9, 4);
    Result<Acquired> made = fail(Code::Internal, "nothing was made");
    std::string snapshot;
    std::optional<Template> layout;
    if (!work.wish.from_template.empty()) {
        work.log.add("info", "FROM template " + printable(work.wish.from_template, 100));
        BERTH_CO_TRY(auto from,
                     co_await sandboxes_.source_of(work.wish.from_template, work.one.built->tenant));
        snapshot = std::move(from.snapshot);
        work.state = std::move(from.defaults);
    } else if (is_base_image(work.wish.from_image)) {
        work.log.add("info", "FROM base");
    } else {
        BERTH_CO_TRY(layout, co_await image(work));
    }
    if (snapshot.empty()) {
        AcquireRequest request;
        request.backend = ground_.backend;
        request.key = key;
        request.spec.name = name;
        request.retention.lifetime = std::chrono::ceil<std::chrono::seconds>(kBuildTime * 2);
        BERTH_CO_TRY(request.spec.policy, policy::preset("sandbox"));
        request.spec.labels[std::string(kTenantLabel)] = work.one.built->tenant;
        if (layout) request.spec.root = *layout;
        made = co_await lifecycle.acquire(std::move(request));
    } else {
        RestoreWish wish{.as_new = true, .name = name, .key = key, .backend = {}};
        wish.volumes.emplace();
        wish.limits.emplace();
        made = co_await lifecycle.restore(snapshot, std::move(wish));
    }
    if (!made) co_return std::unexpected(std::move(made).error());
    work.record = std::move(made->record);
    hooks::kill_point("build based");
    // A machine's ordinary user has sandboxes with one account.
    BERTH_CO_TRY(auto* const where, co_await lifecycle.backend(work.record.backend));
    const auto root =
        co_await where->stat_file(Lifecycle::handle(work.record), {.path = "/", .user = "root"});
    if (!root) work.root = "user";
    if (!layout) co_return Status{};
    co_return co_await add_account(work);
}

/// Where the image lies as a layout. One that the operator has pulled is everybody's; any other is asked for
/// with the tenant's own login, from registries the operator allows.
Task<Result<Template>> Builder::image(Work& work)
{
    work.log.add("info", "FROM " + printable(work.wish.from_image, 200));
    BERTH_CO_TRY(auto reference, distribution::parse_reference(work.wish.from_image));
    distribution::FetchWish wish{
        .reference = std::move(reference),
        .login = {.username = work.wish.username, .password = work.wish.password},
        .patience = std::max<std::chrono::nanoseconds>(work.until - system_clock().steady(), 1s),
        .stop = leaving_.get_token()};
    work.wish.password.clear();
    const auto fetched = co_await fetching_.call([&]() -> Result<distribution::KeptImage> {
        BERTH_TRY(const auto images, distribution::Images::open(ground_.berth.data()));
        if (wish.login.username.empty()) {
            BERTH_TRY(auto known, images.find(wish.reference));
            if (known) return *std::move(known);
        }
        if (!settings_.registries.contains(wish.reference.registry))
            return fail(Code::Denied,
                        "images of {} are not fetched: berth serve --registry {} allows it, berth template "
                        "pull {} makes this one known",
                        wish.reference.registry, wish.reference.registry, wish.reference.text());
        return images.fetch(wish);
    });
    if (!fetched) co_return std::unexpected(fetched.error());
    work.log.add("info", fmt::format("sha256:{}, {}", fetched->digest, brief(Bytes{fetched->bytes})));
    co_return Template{.kind = Template::Kind::Oci, .path = fetched->path, .tag = fetched->tag};
}

/// Clients count on an account `user` with a home of its own, which few images have.
Task<Status> Builder::add_account(Work& work)
{
    work.state.own_accounts = true;
    if (work.root != "root") co_return Status{};
    auto made = co_await command(
        work, {.argv = {"/bin/sh", "-c", std::string(words::kAddAccount)}, .user = "root", .cwd = "/"});
    if (!made)
        co_return fail(Code::Invalid, "the account 'user' could not be made in the image: {}",
                       made.error().message);
    co_return Status{};
}

Task<Status> Builder::command(Work& work, Command what)
{
    ExecSpec spec;
    spec.argv = std::move(what.argv);
    spec.cwd = std::move(what.cwd);
    spec.env = work.state.env;
    // In the words of clients' own tests.
    if (auto known = co_await run_as(ground_, work.record, std::move(what.user), spec); !known)
        co_return fail(known.error().code, "command failed: unauthenticated: {}", known.error().message);
    spec.timeout = std::max<std::chrono::nanoseconds>(work.until - system_clock().steady(), 1ms);
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) {
        const bool out = event.kind == ExecEvent::Kind::Stdout;
        if (!out && event.kind != ExecEvent::Kind::Stderr) return;
        if (what.output != nullptr && out) {
            if (what.output->size() < kLargestValue) *what.output += event.bytes;
        } else {
            work.log.print(out, event.bytes);
        }
    };
    auto told = co_await ground_.berth.exec(work.record.id(), std::move(spec), std::move(streams));
    work.log.flush();
    if (!told) co_return std::unexpected(std::move(told).error());
    if (told->timed_out)
        co_return fail(Code::DeadlineExceeded, "a build takes {} at most",
                       show(std::chrono::nanoseconds(kBuildTime)));
    for (const auto& limit : told->struck) work.log.add("warn", limit);
    if (!told->status.success())
        co_return fail(Code::Invalid, "the command ended with {}", to_string(told->status));
    co_return Status{};
}

Task<Status> Builder::step(Work& work, BuildStep step)
{
    auto& state = work.state;
    switch (step.type) {
    case BuildStep::Type::Run: {
        auto argv = co_await shell_of(ground_, work.record, step.args[0]);
        const bool named = step.args.size() > 1 && !step.args[1].empty();
        auto ran = co_await command(
            work, {.argv = std::move(argv), .user = named ? step.args[1] : state.user, .cwd = state.workdir});
        if (!ran)
            co_return fail(ran.error().code, "failed to run command '{}': {}", printable(step.args[0], 200),
                           ran.error().message);
        co_return ran;
    }
    case BuildStep::Type::Copy: co_return co_await copy(work, std::move(step));
    case BuildStep::Type::Env: co_return co_await set_env(work, std::move(step));
    case BuildStep::Type::Workdir: {
        std::string path = step.args[0];
        if (!path.starts_with('/')) path = fmt::format("{}/{}", work.directory(), path);
        state.workdir = path;
        co_return co_await command(
            work, {.argv = {"/bin/sh", "-c", std::string(words::kMakeDirectory), "workdir", path, state.user},
                   .user = work.root,
                   .cwd = "/"});
    }
    case BuildStep::Type::User: {
        auto there = co_await command(work, {.argv = {"/bin/true"}, .user = step.args[0], .cwd = "/"});
        if (!there)
            co_return fail(Code::Invalid, "user '{}': {}", printable(step.args[0], 60),
                           there.error().message);
        state.user = step.args[0];
        co_return Status{};
    }
    }
    co_return fail(Code::Internal, "a step of no type");
}

Task<Status> Builder::set_env(Work& work, BuildStep step)
{
    for (std::size_t i = 0; i + 1 < step.args.size(); i += 2) {
        std::string value = step.args[i + 1];
        if (value.find('$') != std::string::npos) {
            std::string told;
            auto argv = co_await shell_of(ground_, work.record,
                                          fmt::format("printf %s \"{}\"", words::quoted_value(value)));
            BERTH_CO_CHECK(co_await command(
                work, {.argv = std::move(argv), .user = work.state.user, .cwd = "/", .output = &told}));
            value = std::move(told);
        }
        auto env = work.state.env;
        env[step.args[i]] = std::move(value);
        BERTH_CO_CHECK(validate_env(env));
        work.state.env = std::move(env);
    }
    co_return Status{};
}

Task<Status> Builder::copy(Work& work, BuildStep step)
{
    const auto pattern = words::inside(step.args[0]);
    if (!pattern)
        co_return fail(Code::Invalid, "COPY from '{}', which is not below the context",
                       printable(step.args[0], 100));
    std::string to = step.args[1];
    if (!to.starts_with('/')) to = fmt::format("{}/{}", work.directory(), to);
    auto file = co_await files_.open(work.one.built->tenant, step.files_hash);
    if (!file) co_return fail(Code::NotFound, "the files of this COPY were not uploaded");
    BERTH_CO_TRY(auto* const where, co_await ground_.berth.lifecycle().backend(work.record.backend));
    const auto handle = Lifecycle::handle(work.record);
    const bool all = work.root == "root";
    const FilePath place{.path = fmt::format("{}/.berth-copy-{}", all ? "" : "/tmp", random_hex(8)),
                         .user = work.root};
    BERTH_CO_CHECK(co_await where->make_dir(handle, place, MakeParents::No));
    const int source = file->get();
    const ByteSource read = [source]() -> Result<std::string> {
        std::string piece(std::size_t{256} << 10, '\0');
        const auto n = ::read(source, piece.data(), piece.size());
        if (n < 0) return fail_errno("reading an upload");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    };
    const ArchiveLimits limits{.input = 2_GiB, .extracted = 16_GiB, .names = MemberNames::Any};
    if (auto done = co_await where->write_archive(handle, place, read, limits); !done) {
        (void)co_await where->remove_file(handle, place, RemoveTree::Yes);
        co_return done;
    }
    const std::string owner = step.args[2].empty() ? work.state.user : step.args[2];
    co_return co_await command(work, {.argv = {"/bin/sh", "-c", std::string(words::kCopy), "copy", place.path,
                                               to, all ? owner : "", step.args[3], *pattern},
                                      .user = work.root,
                                      .cwd = "/"});
}

Task<Status> Builder::finalize(Work& work)
{
    auto& lifecycle = ground_.berth.lifecycle();
    if (!work.wish.start_cmd.empty()) work.state.start_cmd = work.wish.start_cmd;
    if (!work.wish.ready_cmd.empty()) work.state.ready_cmd = work.wish.ready_cmd;
    if (!work.state.start_cmd.empty() || !work.state.ready_cmd.empty()) {
        if (!work.state.start_cmd.empty())
            work.log.add("info", "start command: " + printable(work.state.start_cmd, 300));
        StartWish wish{.defaults = work.state, .env = work.state.env, .patience = kReadyTime, .sleeps = true};
        BERTH_CO_CHECK(co_await start_and_wait(ground_, work.record, std::move(wish)));
    }
    BERTH_CO_TRY([[maybe_unused]] const auto stopped, co_await lifecycle.stop(work.record.id(), kStopGrace));
    if (work.one.build->cancelled) co_return fail(Code::Conflict, "the template was removed");
    SnapshotWish wish;
    wish.note = note_of(*work.one.build);
    BERTH_CO_TRY(const auto taken, co_await lifecycle.snapshot(work.record.id(), std::move(wish)));
    hooks::kill_point("build frozen");
    work.one.build->snapshot = taken.record.id;
    work.log.add("info", "the template's own layer is kept");
    co_return Status{};
}

} // namespace berth::e2b
