// The docker backend against docker's own client, on the same engine, image and command in the same run.

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "bench/bench.hpp"
#include "bench/command.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "berth/berth.hpp"

namespace berth::bench {

namespace {

constexpr const char* kDockerExec = "docker exec";
constexpr const char* kExec = "berth exec";
constexpr const char* kInProcess = "exec by the library";
constexpr const char* kDockerRun = "docker run -d";
constexpr const char* kCreate = "create until the keeper answers";
constexpr unsigned kMostRounds = 25; // an engine takes a good part of a second for each container
constexpr const char* kName = "berth-bench";

/// What the containers of both run: this program itself, which needs nothing else to start.
Result<Template> make_root(const std::string& directory)
{
    BERTH_TRY(const auto program, own_program());
    std::error_code failed;
    std::filesystem::create_directories(directory + "/bin", failed);
    std::filesystem::copy_file(program, directory + "/bin/berth", failed);
    if (failed) return fail_with(failed.value(), "copying {}", program);
    return Template{.kind = Template::Kind::Directory, .path = directory, .tag = {}};
}

AcquireRequest wish(const Template& root, const std::string& key)
{
    AcquireRequest out;
    out.key = key;
    out.backend = "docker";
    out.spec.root = root;
    out.spec.user = "root";
    out.spec.workdir = "/";
    out.spec.policy = *policy::preset("sandbox");
    out.spec.policy.limits = {};
    return out;
}

/// One engine, one container of each kind that stays, and whatever is made beside them.
struct Lab {
    OwnData data;
    std::unique_ptr<Berth> berth;
    Template root;
    SandboxRecord kept;
    std::string docker; ///< its client
    std::string image;

    static Result<Lab> make(Context& context)
    {
        BERTH_TRY(auto data, OwnData::make(context, "docker"));
        BERTH_TRY(auto root, make_root(data.path() + "/root"));
        BERTH_TRY(auto berth, Berth::open({.data = data.path() + "/data", .threads = 2}));
        BERTH_TRY(auto acquired, berth->run(berth->lifecycle().acquire(wish(root, "bench"))));
        Lab lab{.data = std::move(data), .berth = std::move(berth), .root = std::move(root)};
        lab.kept = std::move(acquired.record);
        lab.docker = find_program("docker");
        return lab;
    }

    [[nodiscard]] Result<Command> client(std::vector<std::string> words) const
    {
        // A command has no environment here; the engine is the one that this process has.
        if (const char* host = std::getenv("DOCKER_HOST"); host != nullptr)
            words.insert(words.begin(), {"--host", host});
        words.insert(words.begin(), docker);
        return Command::make(words, {.quiet = true, .foreign = true});
    }
};

/// The image that our container runs, for docker's client to run it too.
Result<std::string> image_of(const std::string& data, const std::string& native)
{
    BERTH_TRY(const auto text, read_file(fmt::format("{}/docker/{}/instance", data, native), 16_MiB));
    BERTH_TRY(const auto document, json::parse(text));
    BERTH_TRY(const auto image, json::Reader(document).at("image"));
    return image.string();
}

Result<Case> timed(const char* name, Result<Command> command)
{
    if (!command) return std::unexpected(std::move(command).error());
    const auto shared = std::make_shared<Command>(*std::move(command));
    return Case{.name = name, .run = [shared] { return shared->time(); }};
}

Result<double> exec_in_process(Lab& lab)
{
    ExecSpec exec;
    exec.argv = {"/bin/berth", "version"};
    const Stopwatch watch;
    BERTH_TRY(const auto outcome, lab.berth->run(lab.berth->exec(lab.kept.id(), std::move(exec))));
    if (!outcome.status.success()) return fail(Code::Internal, "it ended with {}", to_string(outcome.status));
    return watch.nanoseconds();
}

Result<double> create_one(Lab& lab)
{
    const Stopwatch watch;
    BERTH_TRY(const auto made, lab.berth->run(lab.berth->lifecycle().acquire(wish(lab.root, "one"))));
    const double taken = watch.nanoseconds();
    BERTH_TRY([[maybe_unused]] const auto gone,
              lab.berth->run(lab.berth->lifecycle().destroy(made.record.id())));
    return taken;
}

Result<Table> warm(Context& context, Lab& lab, const Pace& pace)
{
    Table table{.name = "docker: warm"};
    const std::string container = "berth-" + lab.kept.native;
    std::vector<Case> cases;
    BERTH_TRY(auto theirs, timed(kDockerExec, lab.client({"exec", container, "/bin/berth", "version"})));
    cases.push_back(std::move(theirs));
    BERTH_TRY(const auto program, own_program());
    BERTH_TRY(auto ours, timed(kExec, Command::make({program, "exec", "--data", lab.berth->data(),
                                                     lab.kept.id(), "--", "/bin/berth", "version"},
                                                    {.quiet = true, .foreign = true})));
    cases.push_back(std::move(ours));
    cases.push_back({.name = kInProcess, .run = [&lab] { return exec_in_process(lab); }});
    table.claims = {{.subject = kExec, .reference = kDockerExec, .bar = Bar{.limit = 1.15, .stretch = 0.5}},
                    {.subject = kInProcess, .reference = kDockerExec}};
    measure(context, table, std::move(cases), pace);
    return table;
}

Result<Table> create(Context& context, Lab& lab, const Pace& pace)
{
    Table table{.name = "docker: create"};
    BERTH_TRY(auto run, lab.client({"run", "-d", "--network", "none", "--name", kName, "--entrypoint",
                                    "/bin/berth", lab.image, "conformance", "--list"}));
    BERTH_TRY(auto remove, lab.client({"rm", "-f", kName}));
    const auto runs = std::make_shared<Command>(std::move(run));
    const auto removes = std::make_shared<Command>(std::move(remove));
    std::vector<Case> cases;
    cases.push_back({.name = kDockerRun, .run = [runs, removes]() -> Result<double> {
                         const auto taken = runs->time();
                         const auto gone = removes->time();
                         if (taken && !gone) return gone;
                         return taken;
                     }});
    cases.push_back({.name = kCreate, .run = [&lab] { return create_one(lab); }});
    table.claims = {{.subject = kCreate, .reference = kDockerRun, .bar = Bar{.limit = 1.1, .stretch = 0.9}}};
    measure(context, table, std::move(cases), pace);
    return table;
}

/// What the program had of memory at most. A child begins with its parent's, so only two of them compare.
Result<double> peak_of(std::vector<std::string> words)
{
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = -1;
    if (const int failed = ::posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ); failed != 0)
        return fail_with(failed, "starting {}", words[0]);
    int status = 0;
    rusage usage{};
    while (::wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR) return fail_errno("waiting for {}", words[0]);
    if (status != 0) return fail(Code::Internal, "{} {} ended with {}", words[0], words[1], status);
    return static_cast<double>(usage.ru_maxrss) * 1024;
}

Status write_large(const std::string& path, std::size_t mebibytes)
{
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return fail_errno("creating {}", path);
    std::string piece(std::size_t{1} << 20, '\0');
    for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 7 + 1); // no holes
    for (std::size_t i = 0; i < mebibytes; ++i) BERTH_CHECK(write_all(file.get(), piece));
    return {};
}

/// A file of 1 GiB in and out takes no more memory than one of 1 MiB.
Result<Table> copy(Context& context, Lab& lab, const Pace&)
{
    Table table{.name = "docker: copy"};
    BERTH_TRY(const auto program, own_program());
    std::vector<Case> cases;
    const auto add = [&](const std::string& name, std::string from, std::string to) {
        cases.push_back({.name = name,
                         .run =
                             [&lab, program, from = std::move(from), to = std::move(to)] {
                                 return peak_of({program, "cp", "--data", lab.berth->data(), from, to});
                             },
                         .unit = Unit::Bytes});
    };
    for (const auto& [size, mebibytes] : {std::pair("1 MiB", 1), std::pair("1 GiB", 1024)}) {
        const std::string file = fmt::format("{}/{}", lab.data.path(), mebibytes);
        const std::string inside = fmt::format("{}:/{}", lab.kept.id(), mebibytes);
        BERTH_CHECK(write_large(file, static_cast<std::size_t>(mebibytes)));
        // What comes out must be there in whatever order the cases run.
        BERTH_TRY([[maybe_unused]] const auto first,
                  peak_of({program, "cp", "--data", lab.berth->data(), file, inside}));
        add(fmt::format("{} in", size), file, inside);
        add(fmt::format("{} out", size), inside, file + ".out");
    }
    table.claims = {{.subject = "1 GiB in", .reference = "1 MiB in", .bar = Bar{.limit = 1.5}},
                    {.subject = "1 GiB out", .reference = "1 MiB out", .bar = Bar{.limit = 1.5}}};
    measure(context, table, std::move(cases), {.rounds = 1});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_docker(Context& context)
{
    Table skipped{.name = "docker"};
    const auto skip = [&](std::string why) {
        skipped.skipped.push_back({.name = "docker",
                                   .reason = std::move(why),
                                   .remedy = "apt-get install docker.io, or set DOCKER_HOST"});
        return std::vector<Table>{std::move(skipped)};
    };
    if (find_program("docker").empty()) return skip("docker's client is not in PATH");
    auto lab = Lab::make(context);
    if (!lab && (lab.error().code == Code::Unavailable || lab.error().code == Code::Unsupported ||
                 lab.error().code == Code::Denied))
        return skip(lab.error().line());
    if (!lab) return std::unexpected(std::move(lab).error());
    BERTH_TRY(lab->image, image_of(lab->berth->data(), lab->kept.native));
    const Pace pace{.rounds = std::min(context.options().rounds, kMostRounds)};
    std::vector<Table> tables;
    for (const auto part : {warm, create, copy}) {
        auto table = part(context, *lab, pace);
        if (!table) {
            (void)lab->berth->run(lab->berth->lifecycle().destroy(lab->kept.id()));
            return std::unexpected(std::move(table).error());
        }
        tables.push_back(*std::move(table));
    }
    BERTH_TRY([[maybe_unused]] const auto gone,
              lab->berth->run(lab->berth->lifecycle().destroy(lab->kept.id())));
    return tables;
}

} // namespace berth::bench
