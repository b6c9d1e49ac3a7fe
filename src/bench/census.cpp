#include "bench/census.hpp"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::bench {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIdLength = 30; // "sbx_" and 26 characters
constexpr int kMaxGroupDepth = 8;

/// Names in a directory; none when it cannot be read. Not std::filesystem, because a walk over
/// /proc meets entries that vanish, and its descriptor must not be taken for a leak.
std::vector<std::string> names_in(const std::string& path)
{
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
    if (!dir) return names;
    const std::string own = std::to_string(::dirfd(dir.get()));
    while (const dirent* entry = ::readdir(dir.get())) { // NOLINT(concurrency-mt-unsafe): own stream
        std::string name(&entry->d_name[0]);
        if (name == "." || name == ".." || (path == "/proc/self/fd" && name == own)) continue;
        names.push_back(std::move(name));
    }
    return names;
}

void add_children(std::set<std::string>& things)
{
    const std::string self = std::to_string(::getpid());
    for (const auto& name : names_in("/proc")) {
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const auto stat = read_file("/proc/" + name + "/stat");
        if (!stat) continue; // it has just ended
        // pid (name) state ppid; the name may hold anything, so look for its last bracket.
        const auto open = stat->find('(');
        const auto close = stat->rfind(')');
        if (open == std::string::npos || close == std::string::npos) continue;
        const auto rest = split(std::string_view(*stat).substr(close + 1), ' ');
        if (rest.size() > 2 && rest[2] == self)
            things.insert(
                fmt::format("process {} ({})", name, printable(stat->substr(open + 1, close - open - 1))));
    }
}

void add_mounts(std::set<std::string>& things, const std::string& mountinfo, const std::string& state)
{
    for (const auto& line : split(mountinfo, '\n'))
        if (line.find(" " + state + "/") != std::string::npos ||
            line.find("=" + state + "/") != std::string::npos)
            things.insert("mount " + line);
}

void add_groups(std::set<std::string>& things, const std::string& path, int depth,
                const std::set<std::string, std::less<>>& ids)
{
    if (depth > kMaxGroupDepth) return;
    const std::string own = fmt::format("berth-{}-", ::getpid());
    std::error_code error;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
        std::error_code ignored;
        if (!it->is_directory(ignored) || it->is_symlink(ignored)) continue;
        const std::string name = it->path().filename().string();
        const auto at = name.find("sbx_");
        const bool kept = at != std::string::npos && ids.contains(name.substr(at, kIdLength));
        if (name.starts_with(own) || kept) things.insert("control group " + it->path().string());
        add_groups(things, it->path().string(), depth + 1, ids);
    }
}

void add_all_groups(std::set<std::string>& things, const std::string& mountinfo,
                    const std::set<std::string, std::less<>>& ids)
{
    for (const auto& line : split(mountinfo, '\n')) {
        if (line.find(" - cgroup") == std::string::npos) continue;
        const auto words = split(line, ' ');
        if (words.size() > 4) add_groups(things, words[4], 0, ids);
    }
}

void add_descriptors(std::set<std::string>& things)
{
    for (const auto& name : names_in("/proc/self/fd")) {
        char target[512];
        const auto size = ::readlink(("/proc/self/fd/" + name).c_str(), &target[0], sizeof target);
        if (size < 0) continue;
        things.insert(fmt::format("descriptor {} of {}", name,
                                  printable(std::string_view(&target[0], static_cast<std::size_t>(size)))));
    }
}

void add_entries(std::set<std::string>& things, const std::string& path,
                 const std::set<std::string, std::less<>>& ids)
{
    for (const auto& name : names_in(path)) {
        const auto at = name.find("sbx_");
        // Somebody else's sandbox in the same state directory is not our leak.
        if (at != std::string::npos && !ids.contains(name.substr(at, kIdLength))) continue;
        things.insert(fmt::format("entry {}/{}", path, name));
    }
}

} // namespace

Census Census::take(const local::StateDir& state, const std::set<std::string, std::less<>>& ids)
{
    Census census;
    const auto mounts = read_file("/proc/self/mountinfo", 16_MiB);
    const std::string mountinfo = mounts ? *mounts : std::string{};
    add_children(census.things_);
    add_mounts(census.things_, mountinfo, state.path());
    add_all_groups(census.things_, mountinfo, ids);
    add_descriptors(census.things_);
    for (const auto& path : {state.sandboxes(), state.trash(), state.mount_point()})
        add_entries(census.things_, path, ids);
    return census;
}

std::vector<std::string> Census::since(const Census& before) const
{
    std::vector<std::string> out;
    std::ranges::set_difference(things_, before.things_, std::back_inserter(out));
    return out;
}

std::vector<std::string> leftovers(const Census& before, const std::function<Census()>& take,
                                   std::chrono::milliseconds patience)
{
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
        auto left = take().since(before);
        if (left.empty() || std::chrono::steady_clock::now() >= end) return left;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

} // namespace berth::bench
