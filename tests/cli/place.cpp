#include "cli/place.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "base/ids.hpp"
#include "cli/program.hpp"

namespace berth::test {

namespace fs = std::filesystem;

namespace {

bool is_number(const std::string& text)
{
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::vector<std::string>& claimed_words()
{
    static std::vector<std::string> words;
    return words;
}

/// Named after its maker's pid, "berth-4711-…", or claimed.
bool is_our_group(const std::string& name)
{
    if (!name.starts_with("berth-")) return false;
    const std::string pid = name.substr(6, name.find('-', 6) - 6);
    if (is_number(pid) && (std::stoi(pid) == ::getpid() ||
                           std::ranges::find(started_pids(), std::stoi(pid)) != started_pids().end()))
        return true;
    return std::ranges::any_of(claimed_words(),
                               [&](const auto& word) { return name.find(word) != std::string::npos; });
}

std::vector<std::string> our_groups()
{
    std::vector<std::string> found;
    std::istringstream mounts(contents("/proc/self/mounts"));
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string source, point, type;
        words >> source >> point >> type;
        if (type != "cgroup" && type != "cgroup2") continue;
        std::error_code ec;
        fs::recursive_directory_iterator it(point, fs::directory_options::skip_permission_denied, ec);
        for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
            std::error_code ignored;
            if (!it->is_directory(ignored)) continue;
            if (is_our_group(it->path().filename())) found.push_back(it->path());
        }
    }
    std::ranges::sort(found);
    return found;
}

std::vector<std::string> namespaces_of(const std::vector<int>& pids)
{
    std::vector<std::string> found;
    for (const int pid : pids)
        for (const char* kind : {"mnt", "pid", "net", "ipc", "uts", "user", "cgroup"}) {
            std::error_code ec;
            const auto theirs = fs::read_symlink(fmt::format("/proc/{}/ns/{}", pid, kind), ec);
            if (!ec && theirs != fs::read_symlink(fmt::format("/proc/self/ns/{}", kind), ec))
                found.push_back(theirs);
        }
    std::ranges::sort(found);
    const auto rest = std::ranges::unique(found);
    found.erase(rest.begin(), rest.end());
    return found;
}

template <class... Args> void sh(fmt::format_string<Args...> text, Args&&... args)
{
    const std::string command = fmt::format(text, std::forward<Args>(args)...);
    if (std::system(command.c_str()) != 0) // NOLINT(cert-env33-c,concurrency-mt-unsafe): our own words
        throw std::runtime_error("failed: " + command);
}

} // namespace

std::string contents(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

Place& Place::here()
{
    static Place place;
    static const bool warm = [] {
        place.warm_up();
        return true;
    }();
    static_cast<void>(warm);
    return place;
}

Place::Place() : mark_("mark-" + random_hex(8))
{
    const char* base = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): one thread
    path_ = fmt::format("{}/berth-cli-XXXXXX", base != nullptr ? base : "/tmp");
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("mkdtemp " + path_);
    ::chmod(path_.c_str(), 0755);
}

/// Template 'host' before anybody counts or measures. Every test is a process of its own and making
/// the template takes seconds, so it is made once for each build of the program and linked from there.
void Place::warm_up()
{
    struct stat st{};
    const char* tmp = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): one thread
    const bool built_here = ::access(BERTH_TEST_BUILD_DIR, W_OK) == 0;
    if ((!built_here && tmp == nullptr) || ::stat(program().c_str(), &st) != 0) {
        sh("BERTH_DATA='{0}' '{1}' run -- true </dev/null", state(), program());
        return;
    }
    const std::string base = fmt::format("{}/warm-{}-", built_here ? BERTH_TEST_BUILD_DIR : tmp, ::geteuid());
    const std::string warm = base + std::to_string(st.st_mtime);
    // Those of earlier builds are nobody's any more.
    if (::access(warm.c_str(), F_OK) != 0)
        sh("for d in '{}'*; do [ \"$d\" = '{}' ] || rm -rf \"$d\"; done", base, warm);
    sh("BERTH_DATA='{0}' '{1}' run -- true </dev/null && mkdir -m 700 '{2}' && "
       "{{ cp -al '{0}/template' '{2}/template' 2>/dev/null || " // another file system takes no links
       "{{ rm -rf '{2}/template' && cp -a '{0}/template' '{2}/template'; }}; }} && rm -f "
       "'{2}'/template/*.lock && "
       "BERTH_DATA='{2}' '{1}' run -- true </dev/null",
       warm, program(), state());
}

Place::~Place()
{
    std::error_code ec;
    fs::remove_all(path_, ec);
}

std::string Place::dir(const std::string& name)
{
    const std::string at = fmt::format("{}/{}-{}", path_, next_++, name);
    if (::mkdir(at.c_str(), 0755) != 0) throw std::runtime_error("mkdir " + at);
    ::chmod(at.c_str(), 0755);
    return at;
}

std::string Place::file(const std::string& name, const std::string& bytes, unsigned mode)
{
    const std::string at = fmt::format("{}/{}-{}", path_, next_++, name);
    std::ofstream(at, std::ios::binary) << bytes;
    ::chmod(at.c_str(), mode);
    return at;
}

std::vector<int> processes_with(const std::string& word)
{
    std::vector<int> found;
    std::error_code ec;
    for (const auto& entry : fs::directory_iterator("/proc", ec)) {
        const std::string name = entry.path().filename();
        if (!is_number(name) || std::stoi(name) == ::getpid()) continue;
        const std::string base = "/proc/" + name;
        if (contents(base + "/cmdline").find(word) != std::string::npos ||
            contents(base + "/environ").find(word) != std::string::npos)
            found.push_back(std::stoi(name));
    }
    return found;
}

void claim_groups(const std::string& word) { claimed_words().push_back(word); }

std::vector<std::string> files_below(const std::string& dir)
{
    std::vector<std::string> found;
    std::error_code ec;
    fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, ec);
    for (; !ec && it != fs::recursive_directory_iterator(); it.increment(ec))
        found.push_back(it->path().string().substr(dir.size()));
    std::ranges::sort(found);
    return found;
}

Traces traces(const std::string& state_dir)
{
    Traces now;
    const auto pids = processes_with(Place::here().mark());
    for (const int pid : pids) {
        std::string words = contents(fmt::format("/proc/{}/cmdline", pid)).substr(0, 200);
        std::ranges::replace(words, '\0', ' ');
        now.processes.push_back(fmt::format("{}: {}", pid, words));
    }
    now.namespaces = namespaces_of(pids);
    std::istringstream table(contents("/proc/self/mountinfo"));
    for (std::string line; std::getline(table, line);)
        if (line.find(Place::here().path()) != std::string::npos) now.mounts.push_back(line);
    now.groups = our_groups();
    now.files = files_below(state_dir);
    std::erase(now.files, "/hinted-workspace"); // remembers that a person was told something once
    std::ranges::sort(now.processes);
    std::ranges::sort(now.mounts);
    return now;
}

namespace {

/// Only the differences: a list of a thousand files says nothing.
void expect_equal(const char* what, const std::vector<std::string>& before,
                  const std::vector<std::string>& after)
{
    std::vector<std::string> appeared;
    std::vector<std::string> gone;
    std::ranges::set_difference(after, before, std::back_inserter(appeared));
    std::ranges::set_difference(before, after, std::back_inserter(gone));
    EXPECT_EQ(appeared, std::vector<std::string>{}) << what << " left behind";
    EXPECT_EQ(gone, std::vector<std::string>{}) << what << " gone";
}

} // namespace

void expect_same(const Traces& before, const std::string& state_dir)
{
    static_cast<void>(
        eventually([&] { return processes_with(Place::here().mark()).size() <= before.processes.size(); }));
    const Traces after = traces(state_dir);
    expect_equal("processes", before.processes, after.processes);
    expect_equal("namespaces", before.namespaces, after.namespaces);
    expect_equal("mounts", before.mounts, after.mounts);
    expect_equal("control groups", before.groups, after.groups);
    expect_equal("files", before.files, after.files);
}

std::vector<std::string> marked(std::vector<std::string> options)
{
    options.insert(options.end(), {"--env", "BERTH_TEST_MARK=" + Place::here().mark()});
    return options;
}

} // namespace berth::test
