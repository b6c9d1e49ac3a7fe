// The commands and files are those of whoever builds; they meet nothing of the host's but the sandbox they
// run in. Killed anywhere it leaves a sandbox with a lifetime, which gc destroys, and snapshots of whole
// steps, which are used again: a template has its name when everything of it is there, and not before.

#include "cli/local_build.hpp"

#include <unistd.h>

#include <algorithm>

#include "backend/e2b/context_archive.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "cli/image_root.hpp"
#include "cli/session.hpp"
#include "lifecycle/template_note.hpp"
#include "server/e2b/account.hpp"
#include "server/e2b/build_words.hpp"

namespace berth::cli {

namespace {

using namespace std::chrono_literals;
namespace words = e2b::words;

constexpr auto kBuildTime = 1h;
constexpr std::size_t kLargestValue = std::size_t{64} << 10;
constexpr std::size_t kMostSteps = 200; // that are kept, of all builds together

class Build {
public:
    Build(Berth& berth, const Common& common, const LocalBuildWish& wish)
        : berth_(berth), common_(common), wish_(wish)
    {
    }

    Result<SnapshotRecord> run();
    /// Gone with the build, however it ended.
    Status clear();

private:
    struct Command {
        std::vector<std::string> argv;
        std::string user;
        std::string cwd = "/";
        std::string* output = nullptr;
    };
    Status find_base();
    Status plan();
    Status begin();
    Result<bool> begin_from(const SnapshotRecord& snapshot);
    Status step(const DockerStep& step, bool known);
    Status set_env(const DockerStep& step);
    Status copy(const DockerStep& step);
    Status command(Command what);
    Result<std::optional<e2b::InsideAccount>> account(const std::string& name);
    Result<SnapshotRecord> keep(std::string note);
    Result<SnapshotRecord> finish();
    [[nodiscard]] std::string directory() const { return workdir_.empty() ? "/home/user" : workdir_; }

    Berth& berth_;
    const Common& common_;
    const LocalBuildWish& wish_;
    Template root_;                                           ///< where it begins with no template of ours
    std::optional<SnapshotRecord> base_;                      ///< where it does
    std::vector<std::string> hashes_;                         ///< of each step with all before it
    std::map<std::string, e2b_client::ContextArchive> files_; ///< of COPY, by source
    std::size_t known_ = 0;                                   ///< steps whose files are there already
    std::string sandbox_;
    bool of_image_ = false; ///< what it begins with did not begin with the host's programs
    std::string root_user_ = "root";
    std::string user_ = "user", workdir_;
    std::map<std::string, std::string> env_;
};

std::string shown(const DockerStep& step)
{
    constexpr const char* names[] = {"RUN", "COPY", "ENV", "WORKDIR", "USER"};
    std::string out = names[static_cast<std::size_t>(step.kind)];
    for (const auto& word : step.sources) out += " " + word;
    for (const auto& word : step.args) out += " " + word;
    if (!step.destination.empty()) out += " " + step.destination;
    return printable(out, 200);
}

bool changes_files(const DockerStep& step)
{
    return step.kind == DockerStep::Kind::Run || step.kind == DockerStep::Kind::Copy ||
           step.kind == DockerStep::Kind::Workdir;
}

Status Build::find_base()
{
    const auto& from = wish_.file.from;
    if (from == "base" || from == "host") return {};
    BERTH_TRY(base_, find_template(berth_.store(), from));
    if (base_) {
        of_image_ = base_->spec.root.kind != Template::Kind::Host;
        user_ = base_->spec.user;
        workdir_ = base_->spec.workdir;
        env_ = base_->spec.env;
        return {};
    }
    SandboxSpec spec;
    spec.root = Template{.kind = Template::Kind::Image, .path = from, .tag = {}};
    auto found = use_pulled_image(common_, "local", spec);
    if (!found)
        return std::unexpected(std::move(found).error().while_doing(
            fmt::format("FROM {} (base is the host's own programs)", printable(from, 100))));
    root_ = spec.root;
    return {};
}

/// What each step is, with everything before it: its words, the files it copies, and what it begins with.
Status Build::plan()
{
    std::string so_far = "berth build 1\n" + (base_ ? base_->id : to_string(root_));
    for (const auto& step : wish_.file.steps) {
        Sha256 hash;
        const auto add = [&](std::string_view word) {
            hash.update(fmt::format("{}:", word.size()));
            hash.update(word);
        };
        add(so_far);
        add(std::to_string(static_cast<int>(step.kind)));
        for (const auto& word : step.args) add(word);
        add(step.destination);
        add(step.owner);
        add(step.mode);
        for (const auto& source : step.sources) {
            if (!words::inside(source))
                return fail(Code::Invalid, "line {}: COPY from '{}', which is not below the context",
                            step.line, printable(source, 100));
            if (!files_.contains(source)) {
                BERTH_TRY(files_[source], e2b_client::pack_context(wish_.context, source));
            }
            add(source);
            add(files_[source].hash);
        }
        hashes_.push_back(so_far = hash.hex());
    }
    return {};
}

/// False: it cannot be begun from that any more, the host's programs have changed, say.
Result<bool> Build::begin_from(const SnapshotRecord& snapshot)
{
    auto& lifecycle = berth_.lifecycle();
    RestoreWish wish{.as_new = true, .name = {}, .key = {}, .backend = {}};
    wish.volumes.emplace();
    auto made = berth_.run(lifecycle.restore(snapshot.id, std::move(wish)));
    if (!made && (made.error().code == Code::Exhausted || made.error().code == Code::Unavailable))
        return std::unexpected(std::move(made).error());
    if (!made) return false;
    sandbox_ = made->record.id();
    return true;
}

Status Build::begin()
{
    auto& lifecycle = berth_.lifecycle();
    BERTH_TRY(const auto all, berth_.store().snapshots({}));
    for (std::size_t i = hashes_.size(); i > 0 && sandbox_.empty() && !wish_.force; --i) {
        const auto note = fmt::format("{}{}", kStepNote, hashes_[i - 1]);
        const auto at = std::ranges::find(all, note, &SnapshotRecord::note);
        if (at == all.end()) continue;
        BERTH_TRY(const bool begun, begin_from(*at));
        if (begun) known_ = i;
    }
    if (sandbox_.empty() && base_) {
        BERTH_TRY(const bool begun, begin_from(*base_));
        if (!begun)
            return fail(Code::Conflict, "template {} cannot be used any more: build it again",
                        wish_.file.from);
    }
    if (sandbox_.empty()) {
        AcquireRequest request;
        BERTH_TRY(request.spec.policy, policy::preset("sandbox"));
        request.spec.root = root_;
        request.spec.labels[std::string(kBuildLabel)] = wish_.token;
        request.retention.lifetime = kBuildTime;
        BERTH_TRY(auto made, berth_.run(lifecycle.acquire(std::move(request))));
        sandbox_ = made.record.id();
    } else {
        // What was restored has no lifetime, or that of a build long ago.
        BERTH_TRY(auto record, berth_.run(lifecycle.find(sandbox_)));
        record.retention = {.idle = {}, .on_idle = OnIdle::Stop, .lifetime = kBuildTime};
        record.due = record.deadline();
        record.spec.labels[std::string(kBuildLabel)] = wish_.token;
        BERTH_CHECK(berth_.store().update(record, {}));
    }
    hooks::kill_point("build begun");
    BERTH_TRY(const auto record, berth_.run(lifecycle.find(sandbox_)));
    BERTH_TRY(auto* const where, berth_.backend(record.backend));
    // An ordinary user's sandboxes have one account.
    if (!berth_.run(where->stat_file(Lifecycle::handle(record), {.path = "/", .user = "root"})))
        root_user_ = "user";
    if (root_.kind == Template::Kind::Host || known_ > 0 || root_user_ != "root") return {};
    auto added = command({.argv = {"/bin/sh", "-c", std::string(words::kAddAccount)}, .user = "root"});
    if (!added) return std::unexpected(std::move(added).error().while_doing("making the account 'user'"));
    return {};
}

/// As the sandbox's files have it now: a step may have made it. Nothing: one that every sandbox has.
Result<std::optional<e2b::InsideAccount>> Build::account(const std::string& name)
{
    std::optional<e2b::InsideAccount> out;
    const bool usual = name == "root" || (name == "user" && root_.kind == Template::Kind::Host && !of_image_);
    if (usual || root_user_ != "root") return out;
    BERTH_TRY(const auto record, berth_.run(berth_.lifecycle().find(sandbox_)));
    BERTH_TRY(auto* const where, berth_.backend(record.backend));
    BERTH_TRY(const auto text, berth_.run(where->read_file(Lifecycle::handle(record),
                                                           {.path = "/etc/passwd", .user = "root"}, 64_KiB)));
    out = e2b::find_account(text, name);
    return out;
}

Status Build::command(Command what)
{
    ExecSpec spec;
    spec.argv = std::move(what.argv);
    spec.cwd = std::move(what.cwd);
    spec.user = what.user;
    spec.env = env_;
    BERTH_TRY(const auto inside, account(what.user));
    if (inside) {
        spec.user = inside->numbers;
        e2b::name_user(spec, what.user, inside->home);
    }
    spec.timeout = kBuildTime;
    RunStreams streams;
    streams.on_event = [&](const ExecEvent& event) {
        if (event.kind != ExecEvent::Kind::Stdout && event.kind != ExecEvent::Kind::Stderr) return;
        if (what.output == nullptr)
            (void)write_all(STDERR_FILENO, event.bytes);
        else if (what.output->size() < kLargestValue && event.kind == ExecEvent::Kind::Stdout)
            *what.output += event.bytes;
    };
    BERTH_TRY(const auto told, berth_.run(berth_.exec(sandbox_, std::move(spec), std::move(streams))));
    if (told.timed_out) return fail(Code::DeadlineExceeded, "a step takes {} at most", show(kBuildTime));
    if (!told.status.success())
        return fail(Code::Invalid, "the command ended with {}", to_string(told.status));
    return {};
}

Status Build::set_env(const DockerStep& step)
{
    for (std::size_t i = 0; i + 1 < step.args.size(); i += 2) {
        std::string value = step.args[i + 1];
        if (value.find('$') != std::string::npos) {
            std::string told;
            const auto print = fmt::format("printf %s \"{}\"", words::quoted_value(value));
            BERTH_CHECK(command({.argv = {"/bin/sh", "-c", print}, .user = user_, .output = &told}));
            value = std::move(told);
        }
        auto env = env_;
        env[step.args[i]] = std::move(value);
        BERTH_CHECK(validate_env(env));
        env_ = std::move(env);
    }
    return {};
}

Status Build::copy(const DockerStep& step)
{
    std::string to = step.destination;
    if (!to.starts_with('/')) to = fmt::format("{}/{}", directory(), to);
    BERTH_TRY(const auto record, berth_.run(berth_.lifecycle().find(sandbox_)));
    BERTH_TRY(auto* const where, berth_.backend(record.backend));
    const auto handle = Lifecycle::handle(record);
    const bool all = root_user_ == "root";
    for (const auto& source : step.sources) {
        const FilePath place{.path = fmt::format("{}/.berth-copy-{}", all ? "" : "/tmp", random_hex(8)),
                             .user = root_user_};
        BERTH_CHECK(berth_.run(where->make_dir(handle, place, MakeParents::No)));
        const int file = files_[source].file.get();
        if (::lseek(file, 0, SEEK_SET) != 0) return fail_errno("reading the packed files");
        const ByteSource read = [file]() -> Result<std::string> {
            std::string piece(std::size_t{256} << 10, '\0');
            const auto n = ::read(file, piece.data(), piece.size());
            if (n < 0) return fail_errno("reading the packed files");
            piece.resize(static_cast<std::size_t>(n));
            return piece;
        };
        const ArchiveLimits limits{.input = 2_GiB, .extracted = 16_GiB, .names = MemberNames::Any};
        BERTH_CHECK(berth_.run(where->write_archive(handle, place, read, limits)));
        const std::string owner = step.owner.empty() ? user_ : step.owner;
        // A directory of the destination's is meant where there are several.
        const std::string into = step.sources.size() > 1 && !to.ends_with('/') ? to + "/" : to;
        BERTH_CHECK(command({.argv = {"/bin/sh", "-c", std::string(words::kCopy), "copy", place.path, into,
                                      all ? owner : "", step.mode, *words::inside(source)},
                             .user = root_user_}));
    }
    return {};
}

Status Build::step(const DockerStep& step, bool known)
{
    switch (step.kind) {
    case DockerStep::Kind::Run:
        if (known) return {};
        return command({.argv = {"/bin/sh", "-c", step.args[0]}, .user = user_, .cwd = directory()});
    case DockerStep::Kind::Copy: return known ? Status{} : copy(step);
    case DockerStep::Kind::Env: return set_env(step);
    case DockerStep::Kind::User:
        BERTH_CHECK(command({.argv = {"/bin/true"}, .user = step.args[0]}));
        user_ = step.args[0];
        return {};
    case DockerStep::Kind::Workdir:
        workdir_ =
            step.args[0].starts_with('/') ? step.args[0] : fmt::format("{}/{}", directory(), step.args[0]);
        if (known) return {};
        return command(
            {.argv = {"/bin/sh", "-c", std::string(words::kMakeDirectory), "workdir", workdir_, user_},
             .user = root_user_});
    }
    return fail(Code::Internal, "a step of no kind");
}

Result<SnapshotRecord> Build::keep(std::string note)
{
    SnapshotWish wish;
    wish.note = std::move(note);
    BERTH_TRY(auto taken, berth_.run(berth_.lifecycle().snapshot(sandbox_, std::move(wish))));
    return std::move(taken.record);
}

/// The name goes to the new one, and then the old one goes: whoever asks meanwhile gets the newer of two.
Result<SnapshotRecord> Build::finish()
{
    auto& store = berth_.store();
    BERTH_TRY(auto record, berth_.run(berth_.lifecycle().find(sandbox_)));
    BERTH_TRY(const auto inside, account(user_));
    if (inside) {
        // Whoever looks the name up later sees the image's own files.
        env_.try_emplace("HOME", inside->home);
        env_.try_emplace("USER", user_);
        if (workdir_.empty()) workdir_ = inside->home;
    }
    record.spec.env = env_;
    record.spec.user = inside ? inside->numbers : user_;
    record.spec.workdir = workdir_;
    BERTH_CHECK(validate(record.spec));
    BERTH_CHECK(store.update(record, {}));
    hooks::kill_point("build described");
    BERTH_TRY(auto built, keep(template_note(wish_.name)));
    hooks::kill_point("build named");
    BERTH_TRY(const auto all, store.snapshots({}));
    std::size_t steps = 0;
    bool older = false;           // of two that build one name at once, neither may take the newer one away
    for (const auto& one : all) { // newest first
        if (older && template_name(one) == wish_.name)
            BERTH_CHECK(berth_.run(berth_.lifecycle().remove_snapshot(one.id)));
        older = older || one.id == built.id;
        if (one.note.starts_with(kStepNote) && ++steps > kMostSteps)
            BERTH_CHECK(berth_.run(berth_.lifecycle().remove_snapshot(one.id)));
    }
    return built;
}

Result<SnapshotRecord> Build::run()
{
    BERTH_CHECK(find_base());
    BERTH_CHECK(plan());
    BERTH_CHECK(begin());
    const auto& steps = wish_.file.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const bool known = i < known_;
        say(fmt::format("[{}/{}] {}{}", i + 1, steps.size(), shown(steps[i]), known ? " (made before)" : ""));
        if (auto done = step(steps[i], known); !done)
            return std::unexpected(std::move(done).error().while_doing(
                fmt::format("line {}: {}", steps[i].line, shown(steps[i]))));
        if (known || !changes_files(steps[i])) continue;
        BERTH_CHECK(keep(fmt::format("{}{}", kStepNote, hashes_[i])));
        hooks::kill_point("build step kept");
    }
    return finish();
}

Status Build::clear()
{
    if (sandbox_.empty()) return {};
    const auto gone = berth_.run(berth_.lifecycle().destroy(sandbox_));
    if (!gone) return std::unexpected(gone.error());
    return {};
}

} // namespace

Status clear_build(Berth& berth, const std::string& token)
{
    std::vector<std::string> found;
    for (RecordQuery query;;) {
        BERTH_TRY(const auto page, berth.store().list(query));
        for (const auto& one : page) {
            const auto label = one.spec.labels.find(std::string(kBuildLabel));
            if (label != one.spec.labels.end() && label->second == token) found.push_back(one.id());
        }
        if (page.size() < query.limit) break;
        query.after = page.back().id();
    }
    for (const auto& id : found)
        if (auto gone = berth.run(berth.lifecycle().destroy(id)); !gone)
            return std::unexpected(std::move(gone).error());
    return {};
}

Result<SnapshotRecord> build_here(Berth& berth, const Common& common, const LocalBuildWish& wish)
{
    Build build(berth, common, wish);
    auto built = build.run();
    if (auto gone = build.clear(); !gone)
        say("the build's sandbox could not be removed: " + gone.error().line());
    return built;
}

} // namespace berth::cli
