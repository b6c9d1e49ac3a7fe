#include "backend/local/submounts.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

constexpr Bytes kMountTable = 16_MiB;
constexpr std::size_t kMost = 256;

/// Blanks, line ends and backslashes stand there in octal.
std::string plain(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t at) { return text[at] >= '0' && text[at] <= '7'; };
        if (text[i] == '\\' && i + 3 < text.size() && digit(i + 1) && digit(i + 2) && digit(i + 3)) {
            out +=
                static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

} // namespace

std::vector<Submount> parse_submounts(std::string_view table, std::string_view directory)
{
    const std::string start = directory == "/" ? "/" : fmt::format("{}/", directory);
    std::vector<std::string> below;
    for (const auto& line : split(table, '\n')) {
        const auto words = split(line, ' '); // 36 35 98:0 /root /mount/point …
        if (words.size() < 5) continue;
        auto point = plain(words[4]);
        if (point.size() > start.size() && point.starts_with(start))
            below.push_back(point.substr(start.size()));
    }
    std::ranges::sort(below);
    std::vector<Submount> out;
    for (auto& path : below) {
        const auto covers = [&](const Submount& one) {
            return path == one.below || path.starts_with(one.below + "/");
        };
        if (std::ranges::none_of(out, covers)) out.push_back({.below = std::move(path)});
    }
    return out;
}

Result<std::vector<Submount>> submounts_of(std::string_view directory)
{
    BERTH_TRY(const auto table, read_file("/proc/self/mountinfo", kMountTable));
    auto out = parse_submounts(table, directory);
    if (out.size() > kMost)
        return fail(Code::Exhausted, "{} file systems are mounted in {}: more than {} cannot be covered",
                    out.size(), printable(directory), kMost);
    for (auto& one : out) {
        struct stat st{};
        const std::string path = fmt::format("{}/{}", directory, one.below);
        one.file = ::lstat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode);
    }
    return out;
}

void cover(sys::StepList& list, const std::vector<Submount>& submounts, const std::string& at)
{
    constexpr std::uint64_t locked =
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    for (const auto& one : submounts) {
        sys::Slot tree;
        if (one.file) {
            tree = list.open_tree("/dev/null");
        } else {
            const auto fs = list.fs_open("tmpfs");
            list.fs_string(fs, "mode", "0555");
            list.fs_string(fs, "size", "4k");
            tree = list.fs_mount(fs, locked);
            list.close(fs);
        }
        // Whoever may not reach it now will not inside; and what is gone needs no cover.
        const auto target = list.open_beneath({}, at + "/" + one.below, O_PATH | O_CLOEXEC,
                                              RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS, sys::kOutOfReach);
        list.move_mount(tree, target, sys::kOutOfReach);
        list.close(target, sys::kOutOfReach);
        list.close(tree);
    }
}

} // namespace berth::local
