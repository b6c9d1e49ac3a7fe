#include "backend/local/usr_mounts.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

constexpr Bytes kMountTable = 16_MiB;

std::string upper_of_usr(const StateDir& state, const std::string& layer)
{
    return fmt::format("{}/{}/u2", state.layers(), layer);
}

} // namespace

std::string mounted_below(std::string_view directory)
{
    const auto table = read_file("/proc/self/mountinfo", kMountTable);
    if (!table) return {};
    const std::string start = fmt::format("{}/", directory);
    for (const auto& line : split(*table, '\n')) {
        auto words = split(line, ' '); // 36 35 98:0 /root /mount/point …
        if (words.size() > 4 && words[4].starts_with(start)) return std::move(words[4]);
    }
    return {};
}

Status check_only_local(const StateDir& state, const std::vector<std::string>& stack,
                        const std::string& mount)
{
    namespace fs = std::filesystem;
    for (const auto& layer : stack) {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(upper_of_usr(state, layer), error)) {
            if (entry.path().filename() == "local" &&
                entry.symlink_status(error).type() == fs::file_type::directory)
                continue;
            return fail(
                Code::Unsupported,
                "it has changed /usr/{}, and on this machine {} is mounted in /usr: an ordinary user's "
                "sandbox cannot have a layer over that; unmount it, or run berth as root",
                printable(entry.path().filename().string()), printable(mount));
        }
        if (error) return fail(Code::Internal, "reading layer {}: {}", layer, error.message());
    }
    return {};
}

std::vector<std::size_t> layers_with_local(const StateDir& state, const std::vector<std::string>& stack)
{
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < stack.size(); ++i) {
        struct stat st{};
        if (::lstat((upper_of_usr(state, stack[i]) + "/local").c_str(), &st) == 0 && S_ISDIR(st.st_mode))
            out.push_back(i);
    }
    return out;
}

} // namespace berth::local
