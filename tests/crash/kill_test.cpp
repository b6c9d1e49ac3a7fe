// SIGKILL at every labelled step of a run. The labels are read from the sources, so that a new step
// is tested without anybody remembering to; a label that no scenario reaches fails the test.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include "cli/place.hpp"
#include "cli/program.hpp"
#include "support/places.hpp"

namespace berth::test {
namespace {

namespace fs = std::filesystem;

/// Steps of sandboxes with a keeper: `berth run` does not take them.
const std::set<std::string> kOfKeptSandboxes{"sandbox.cpp",        "sandbox_exec.cpp",  "narrow.cpp",
                                             "boot.cpp",           "rest.cpp",          "stop_start.cpp",
                                             "layer_snapshot.cpp", "layer_collect.cpp", "layer_manifest.cpp",
                                             "layer_merge.cpp",    "parked.cpp",        "cache_collect.cpp"};
/// Of what sandboxes with a keeper share this is also a throw-away one's.
const std::set<std::string> kOfKeeping{"file_rules.cpp", "walls.cpp"};
/// A step that only a root of several image layers takes.
const std::set<std::string> kOfImages{"making the image's working directory"};

/// What BERTH_TEST_KILL may be, by what the sources say.
std::set<std::string> labels()
{
    const std::regex call(R"re((?:kill_point\(|stage\(list, parent,\s*)(?:fmt::format\()?"([^"]+)")re");
    std::set<std::string> found;
    for (const std::string dir : {"/src/backend/local", "/src/image", "/src/keeping"})
        for (const auto& entry : fs::directory_iterator(std::string(BERTH_SOURCE_DIR) + dir)) {
            if (dir == "/src/keeping" && !kOfKeeping.contains(entry.path().filename())) continue;
            if (entry.path().extension() != ".cpp" || kOfKeptSandboxes.contains(entry.path().filename()))
                continue;
            const std::string text = contents(entry.path());
            for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it)
                if (!kOfImages.contains((*it)[1])) found.insert((*it)[1]);
        }
    return found;
}

struct Scenario {
    const char* name;
    Words options;      ///< "@" stands for a fresh workspace
    bool fresh = false; ///< needs a state directory in which nothing was made yet
    bool as_user = false;
};

std::vector<Scenario> scenarios()
{
    std::vector<Scenario> all{
        {.name = "plain", .options = {}},
        {.name = "a fresh state directory", .options = {}, .fresh = true},
        {.name = "a tar template", .options = {"--template", "#"}, .fresh = true},
        {.name = "a directory template", .options = {"--template", "!"}},
        {.name = "the policy workspace-write",
         .options = {"--workspace", "@", "--policy", "workspace-write"}},
        {.name = "a mount and a copy", .options = {"--mount", "@:/data:copy", "--mount", "@:/other:ro"}},
        {.name = "the live view",
         .options = {"--template", "live", "--policy", "read-only", "--workdir", "/"}},
        {.name = "deny patterns", .options = {"--policy", "&"}},
    };
    if (!is_root()) return all;
    all.push_back({.name = "limits", .options = {"--memory", "256MiB", "--cpus", "1", "--pids", "100"}});
    all.push_back({.name = "sudo", .options = {"--policy", "%"}});
    all.push_back({.name = "an ordinary user", .options = {}, .as_user = true});
    return all;
}

/// Where a scenario runs: as ourselves here, or as uid 12345 in a copy that user can reach.
struct Stage {
    std::string state;
    std::string dir;
    std::string program;
    std::string hooks;
    std::function<void()> become;
};

constexpr unsigned kOrdinary = 12345;

Stage stage_for(const Scenario& scenario)
{
    Stage stage{.state = Place::here().state(),
                .dir = Place::here().dir("stage"),
                .program = program(),
                .hooks = hooks_program()};
    if (scenario.fresh) stage.state = stage.dir + "/state";
    if (!scenario.as_user) return stage;
    for (const auto& from : {stage.program, stage.hooks})
        fs::copy_file(from, stage.dir + "/" + fs::path(from).filename().string());
    stage.program = stage.dir + "/" + fs::path(stage.program).filename().string();
    stage.hooks = stage.dir + "/" + fs::path(stage.hooks).filename().string();
    fs::create_directory(stage.dir + "/own");
    EXPECT_EQ(::chown((stage.dir + "/own").c_str(), kOrdinary, kOrdinary), 0);
    stage.state = stage.dir + "/own/state";
    stage.become = [] {
        if (::setgroups(0, nullptr) != 0 || ::setresgid(kOrdinary, kOrdinary, kOrdinary) != 0 ||
            ::setresuid(kOrdinary, kOrdinary, kOrdinary) != 0)
            ::_exit(203);
    };
    return stage;
}

/// What passes for a root file system; nothing in it can be run.
std::string tiny_root()
{
    static const std::string root = [] {
        const std::string dir = Place::here().dir("tiny-root");
        fs::create_directory(dir + "/bin");
        fs::create_directory(dir + "/etc");
        std::ofstream(dir + "/bin/program") << "#!/not/there\n";
        ::chmod((dir + "/bin/program").c_str(), 0755);
        std::ofstream(dir + "/etc/passwd") << "root:x:0:0::/:/bin/sh\n";
        return dir;
    }();
    return root;
}

std::string tar_template()
{
    static const std::string path = [] {
        const std::string tar = Place::here().path() + "/root.tar";
        EXPECT_EQ(std::system(("tar -C '" + tiny_root() + "' -cf '" + tar + "' .").c_str()), 0);
        return tar;
    }();
    return path;
}

class Kill : public testing::Test {
protected:
    /// One run that is to die at `label`; true when it got there.
    static bool dies_at(const Scenario& scenario, const Stage& stage, const std::string& workspace,
                        const std::string& label)
    {
        Words args{"run", "--timeout", "20s"};
        for (const auto& word : marked(scenario.options)) args.push_back(filled(word, workspace));
        args.insert(args.end(), {"--", "sh", "-c", "exit 0"});
        const auto ended = run({.args = args,
                                .program = stage.hooks,
                                .env = {{"BERTH_DATA", stage.state}, {"BERTH_TEST_KILL", label}},
                                .in_child = stage.become});
        if (ended.signal != SIGKILL) {
            // A tiny root has no shell; whatever else a run that was not killed says is a failure.
            EXPECT_TRUE(ended.code == 0 || ended.code == 127) << ended.code << " " << ended.err;
        }
        return ended.signal == SIGKILL;
    }

    static std::string filled(std::string word, const std::string& workspace)
    {
        if (word == "#") return tar_template();
        if (word == "!") return tiny_root();
        if (word == "%") return Place::here().file("sudo.json", R"({"privileges":"sudo"})");
        if (word == "&")
            return Place::here().file("patterns.json",
                                      R"({"files":[{"write":":root"},{"deny":"**/*.pem"}]})");
        if (word.starts_with("@")) word = workspace + word.substr(1);
        return word;
    }

    /// The next run, as the issue has it; then the doctor for what only it looks at.
    static void clean(const Stage& stage)
    {
        for (const Words& args : {Words{"run", "--", "true"}, Words{"doctor", "--clean"}}) {
            const auto ended = run({.args = args,
                                    .program = stage.program,
                                    .env = {{"BERTH_DATA", stage.state}},
                                    .in_child = stage.become});
            EXPECT_EQ(ended.code, 0) << args[0] << ": " << ended.err;
        }
    }

    static void walk(const Scenario& scenario, std::set<std::string>& reached)
    {
        const Stage stage = stage_for(scenario);
        if (!scenario.fresh) clean(stage);
        for (const auto& written : labels()) {
            // A template is made once: its steps are walked where none is there, and only those.
            if (written.starts_with("template:") != scenario.fresh) continue;
            const bool pattern = written.find("{}") != std::string::npos;
            const std::string label =
                pattern ? std::regex_replace(written, std::regex(R"(\{\})"), "/data") : written;
            SCOPED_TRACE(std::string(scenario.name) + ", killed at: " + label);
            const std::string workspace = Place::here().dir("workspace");
            std::ofstream(workspace + "/file") << "kept\n";
            const auto in_workspace = files_below(workspace);
            const std::string state = stage.state;
            if (scenario.fresh) fs::remove_all(state);
            const Traces before = traces(state);
            if (dies_at(scenario, stage, workspace, label)) reached.insert(written);
            EXPECT_TRUE(eventually([&] { return processes_with(Place::here().mark()).empty(); }))
                << "processes live on";
            clean(stage);
            if (scenario.fresh) {
                // What is made once is there now; of the killed attempt nothing may be.
                for (const auto& file : files_below(state))
                    EXPECT_EQ(file.find(".tmp"), std::string::npos) << file;
                Traces now = traces(state);
                now.files = before.files;
                EXPECT_EQ(now, before);
            } else {
                expect_same(before, state);
            }
            EXPECT_EQ(files_below(workspace), in_workspace);
            EXPECT_EQ(contents(workspace + "/file"), "kept\n");
            if (HasFailure()) return;
        }
    }
};

TEST_F(Kill, LabelsAreFoundInTheSources)
{
    EXPECT_THAT(labels(), testing::IsSupersetOf(
                              {"limits made", "switching the root", "mounting {}", "template:begun"}));
    EXPECT_GT(labels().size(), 30u);
}

TEST_F(Kill, AtEveryStepLeavesNothing)
{
    std::set<std::string> reached;
    for (const auto& scenario : scenarios()) walk(scenario, reached);
    std::set<std::string> expected = labels();
    // An ordinary user's run has no groups, maps no ids of others, and never runs as sudo. Its network
    // namespace comes with the clone.
    if (!is_root())
        for (const char* label : {"installing the filter", "entering the network namespace"})
            expected.erase(label);
    else if (!reached.contains("writing the id maps"))
        ADD_FAILURE() << "the ordinary user's scenario did not run";
    EXPECT_EQ(reached, expected);
}

} // namespace
} // namespace berth::test
