// Snapshots and forks against a plain create of the same run: a quiet sandbox with few files and with
// many, a busy one, and what a hundred forks of one sandbox weigh.

#include <sys/stat.h>

#include <filesystem>

#include "base/ids.hpp"
#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "berth/berth.hpp"

namespace berth::bench {

namespace {

using namespace std::chrono_literals;

constexpr unsigned kFew = 100;
constexpr unsigned kMany = 10'000;
constexpr unsigned kForks = 100;
constexpr unsigned kSnapshotsOfOne = 16; ///< a stack grows with each: then a new source is made

/// Sandboxes without a store: what is measured is the backend alone.
class Lab {
public:
    static Result<std::unique_ptr<Lab>> open(Context& context)
    {
        BERTH_TRY(auto data, OwnData::make(context, "fork"));
        BERTH_TRY(auto berth, Berth::open({.data = data.path(), .threads = 1}));
        BERTH_TRY(auto* const backend, berth->backend("local"));
        if (::mkdir((data.path() + "/snapshot").c_str(), 0700) != 0)
            return fail_errno("creating a directory");
        return std::unique_ptr<Lab>(new Lab(context, std::move(data), std::move(berth), backend));
    }
    ~Lab()
    {
        if (auto all = berth_->run(backend_->scan()))
            for (const auto& one : *all) (void)berth_->run(backend_->destroy(one.sandbox));
    }

    Result<SandboxHandle> create(const std::optional<SnapshotSource>& from = {})
    {
        CreateRequest request(context_->spec());
        request.from = from;
        return berth_->run(backend_->create(std::move(request)));
    }
    Status destroy(const SandboxHandle& sandbox) { return berth_->run(backend_->destroy(sandbox)); }

    Result<SnapshotSource> begin_snapshot()
    {
        SnapshotSource out{.id = make_snapshot_id(system_clock()), .kind = {}, .directory = {}};
        out.directory = fmt::format("{}/snapshot/{}", data_.path(), out.id);
        if (::mkdir(out.directory.c_str(), 0700) != 0) return fail_errno("creating {}", out.directory);
        return out;
    }
    Result<SnapshotTaken> take(const SandboxHandle& sandbox, SnapshotSource& into)
    {
        auto taken = berth_->run(backend_->snapshot(
            sandbox,
            {.id = into.id, .kind = std::string(snapshot_kind::kLayer), .directory = into.directory}));
        if (taken) into.kind = taken->kind;
        return taken;
    }
    Status forget(const SnapshotSource& snapshot)
    {
        BERTH_CHECK(berth_->run(backend_->drop_snapshot(snapshot)));
        std::error_code ignored;
        std::filesystem::remove_all(snapshot.directory, ignored);
        return {};
    }
    Status collect()
    {
        BERTH_TRY([[maybe_unused]] const auto gone,
                  berth_->run(backend_->collect(data_.path() + "/snapshot", false)));
        return {};
    }

    Result<std::string> shell(const SandboxHandle& sandbox, const std::string& script)
    {
        ExecSpec exec;
        exec.id = make_exec_id(system_clock());
        exec.argv = {"sh", "-c", script};
        exec.timeout = 60s;
        BERTH_CHECK(berth_->run(backend_->exec(sandbox, exec)));
        std::string output;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        BERTH_TRY(const auto ended, berth_->run(backend_->follow(sandbox, exec, streams)));
        if (!ended.status.success()) return fail(Code::Internal, "'{}': {}", script, to_string(ended.status));
        return output;
    }
    Result<std::string> begin(const SandboxHandle& sandbox, const std::string& script)
    {
        ExecSpec exec;
        exec.id = make_exec_id(system_clock());
        exec.argv = {"sh", "-c", script};
        BERTH_CHECK(berth_->run(backend_->exec(sandbox, exec)));
        return exec.id;
    }
    Result<std::vector<ExecEvent>> events(const SandboxHandle& sandbox, const std::string& exec)
    {
        return berth_->run(backend_->read_events(sandbox, exec, 0, system_clock().steady() + 1s));
    }
    Result<SandboxHandle> with_files(unsigned count)
    {
        BERTH_TRY(auto made, create());
        BERTH_TRY([[maybe_unused]] const auto done,
                  shell(made, fmt::format("mkdir ~/w && cd ~/w && seq {} | split -l 1 -a 4 - f", count)));
        return made;
    }
    [[nodiscard]] std::string files_of(const SandboxHandle& sandbox) const
    {
        return fmt::format("{}/sandbox/{}/fs", data_.path(), sandbox.native);
    }
    [[nodiscard]] const std::string& path() const { return data_.path(); }

private:
    Lab(Context& context, OwnData data, std::unique_ptr<Berth> berth, Backend* backend)
        : context_(&context), data_(std::move(data)), berth_(std::move(berth)), backend_(backend)
    {
    }
    Context* context_;
    OwnData data_;
    std::unique_ptr<Berth> berth_;
    Backend* backend_;
};

/// A quiet sandbox with so many files, made anew when its stack has become deep.
class Source {
public:
    Source(Lab& lab, unsigned files) : lab_(&lab), files_(files) {}
    Result<SandboxHandle> get()
    {
        if (used_++ % kSnapshotsOfOne == 0) {
            if (sandbox_) BERTH_CHECK(lab_->destroy(*sandbox_));
            BERTH_CHECK(lab_->collect());
            BERTH_TRY(sandbox_, lab_->with_files(files_));
        }
        return *sandbox_;
    }

private:
    Lab* lab_;
    unsigned files_;
    unsigned used_ = 0;
    std::optional<SandboxHandle> sandbox_;
};

Result<double> plain_create(Lab& lab)
{
    const Stopwatch watch;
    BERTH_TRY(const auto made, lab.create());
    const double taken = watch.nanoseconds();
    BERTH_CHECK(lab.destroy(made));
    return taken;
}

enum class Fork { No, Yes };

Result<double> snapshot_or_fork(Lab& lab, Source& source, Fork fork)
{
    BERTH_TRY(const auto from, source.get());
    BERTH_TRY(auto into, lab.begin_snapshot());
    const Stopwatch watch;
    BERTH_TRY(const auto taken, lab.take(from, into));
    std::optional<SandboxHandle> child;
    if (fork == Fork::Yes) {
        BERTH_TRY(child, lab.create(into));
    }
    const double time = watch.nanoseconds();
    if (taken.live_copy) return fail(Code::Internal, "a quiet sandbox was copied while it ran");
    if (child) {
        BERTH_TRY(const auto seen, lab.shell(*child, "ls ~/w | wc -l"));
        BERTH_TRY(const auto there, lab.shell(from, "ls ~/w | wc -l"));
        if (seen != there || seen.size() < 4)
            return fail(Code::Internal, "a fork has {} files of {}", seen, there);
        BERTH_CHECK(lab.destroy(*child));
    }
    BERTH_CHECK(lab.forget(into));
    return time;
}

Table quiet(Context& context, Lab& lab)
{
    Table table{.name = "fork, a quiet sandbox"};
    constexpr const char* kCreate = "create";
    Source few(lab, kFew), many(lab, kMany);
    std::vector<Case> cases{{.name = kCreate, .run = [&lab] { return plain_create(lab); }}};
    const auto add = [&](const char* what, Fork fork, double bar) {
        const std::string light = fmt::format("{}, {} files", what, kFew);
        const std::string heavy = fmt::format("{}, {} files", what, kMany);
        cases.push_back(
            {.name = light, .run = [&lab, &few, fork] { return snapshot_or_fork(lab, few, fork); }});
        cases.push_back(
            {.name = heavy, .run = [&lab, &many, fork] { return snapshot_or_fork(lab, many, fork); }});
        table.claims.push_back({.subject = heavy, .reference = kCreate, .bar = Bar{.limit = bar}});
        table.claims.push_back({.subject = heavy, .reference = light, .bar = Bar{.limit = 1.3}});
    };
    add("snapshot", Fork::No, 1.5);
    add("fork", Fork::Yes, 2.6);
    measure(context, table, std::move(cases), {.rounds = std::max(context.options().rounds / 8, 4u)});
    return table;
}

/// A live copy: what it costs, and that the command it copied beside wrote on without a gap.
Result<Table> busy(Context& context, Lab& lab)
{
    Table table{.name = "fork, a busy sandbox"};
    const std::string cp = fmt::format("cp -a --reflink=auto, {} files", kMany);
    const std::string live = fmt::format("snapshot while an exec runs, {} files", kMany);
    BERTH_TRY(const auto source, lab.with_files(kMany));
    BERTH_TRY(const auto writer,
              lab.begin(source, "i=0; while [ $i -lt 1000000 ]; do echo $i; i=$((i+1)); sleep 0.01; done"));
    auto first = lab.begin_snapshot();
    if (!first) return std::unexpected(first.error());
    if (auto possible = lab.take(source, *first); !possible) {
        if (possible.error().code != Code::Unsupported) return std::unexpected(possible.error());
        table.skipped.push_back({.name = live, .reason = possible.error().message, .remedy = "run as root"});
        BERTH_CHECK(lab.destroy(source));
        return table;
    }
    BERTH_CHECK(lab.forget(*first));
    const std::string copy = lab.path() + "/copy";
    std::vector<Case> cases{
        {.name = cp,
         .run = [&]() -> Result<double> {
             BERTH_TRY(auto command,
                       Command::make({find_program("cp"), "-a", "--reflink=auto", lab.files_of(source), copy},
                                     {.quiet = true}));
             BERTH_TRY(const double taken, command.time());
             std::error_code ignored;
             std::filesystem::remove_all(copy, ignored);
             return taken;
         }},
        {.name = live, .run = [&]() -> Result<double> {
             BERTH_TRY(auto into, lab.begin_snapshot());
             const Stopwatch watch;
             BERTH_TRY(const auto taken, lab.take(source, into));
             const double time = watch.nanoseconds();
             if (!taken.live_copy) return fail(Code::Internal, "a busy sandbox was restarted");
             BERTH_CHECK(lab.forget(into));
             BERTH_CHECK(lab.collect());
             return time;
         }}};
    table.claims.push_back({.subject = live, .reference = cp});
    measure(context, table, std::move(cases), {.rounds = std::max(context.options().rounds / 40, 2u)});
    BERTH_TRY(const auto events, lab.events(source, writer));
    std::string text;
    for (const auto& event : events) text += event.bytes;
    std::size_t number = 0;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos;
         at = end + 1, ++number)
        if (text.substr(at, end - at) != std::to_string(number)) {
            table.problems.push_back(fmt::format("the writer's line {} is missing or damaged", number));
            break;
        }
    if (number < 10) table.problems.push_back(fmt::format("the writer wrote only {} lines", number));
    BERTH_CHECK(lab.destroy(source));
    BERTH_CHECK(lab.collect());
    return table;
}

std::uint64_t bytes_below(const std::string& path)
{
    std::uint64_t total = 0;
    std::error_code failed;
    for (auto it = std::filesystem::recursive_directory_iterator(path, failed); !failed && it != end(it);
         it.increment(failed)) {
        struct stat st{};
        if (::lstat(it->path().c_str(), &st) == 0) total += static_cast<std::uint64_t>(st.st_blocks) * 512;
    }
    return total;
}

/// Shared: what a fork adds is its own empty layer.
Result<Table> shared(Context& context, Lab& lab)
{
    Table table{.name = fmt::format("fork, {} of one sandbox on disk", kForks)};
    context.progress(fmt::format("fork: {} of one", kForks));
    BERTH_TRY(const auto source, lab.with_files(kMany));
    BERTH_TRY(auto into, lab.begin_snapshot());
    BERTH_TRY([[maybe_unused]] const auto taken, lab.take(source, into));
    const std::uint64_t before = bytes_below(lab.path() + "/layer") + bytes_below(lab.path() + "/sandbox");
    std::vector<SandboxHandle> forks;
    for (unsigned i = 0; i < kForks; ++i) {
        BERTH_TRY(auto made, lab.create(into));
        forks.push_back(std::move(made));
    }
    const std::uint64_t after = bytes_below(lab.path() + "/layer") + bytes_below(lab.path() + "/sandbox");
    for (const auto& one : forks) BERTH_CHECK(lab.destroy(one));
    BERTH_CHECK(lab.forget(into));
    BERTH_CHECK(lab.destroy(source));
    BERTH_CHECK(lab.collect());
    const auto one = [](const char* name, double value) {
        return Series{.name = name, .unit = Unit::Bytes, .repeats = {{value}}};
    };
    table.series.push_back(one("the sandbox and its layers", static_cast<double>(before)));
    table.series.push_back(one("each fork adds", static_cast<double>(after - before) / kForks));
    table.claims.push_back({.subject = "each fork adds", .reference = "the sandbox and its layers"});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_fork(Context& context)
{
    BERTH_TRY(const auto lab, Lab::open(context));
    std::vector<Table> tables{quiet(context, *lab)};
    BERTH_TRY(auto running, busy(context, *lab));
    tables.push_back(std::move(running));
    BERTH_TRY(auto weight, shared(context, *lab));
    tables.push_back(std::move(weight));
    return tables;
}

} // namespace berth::bench
