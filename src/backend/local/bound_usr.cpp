#include "backend/local/bound_usr.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <filesystem>

#include "base/strings.hpp"
#include "sys/lay_over.hpp"

namespace berth::local {

Status check_only_local(const std::vector<std::string>& layers, const std::string& mount)
{
    namespace fs = std::filesystem;
    for (const auto& layer : layers) {
        std::error_code error;
        for (const auto& entry : fs::directory_iterator(layer + "/u2", error)) {
            std::error_code gone;
            if (entry.path().filename() == "local" &&
                entry.symlink_status(gone).type() == fs::file_type::directory)
                continue;
            return fail(
                Code::Unsupported,
                "it has changed /usr/{}, and on this machine {} is mounted in /usr: an ordinary user's "
                "sandbox cannot have a layer over that; unmount it, or run berth as root",
                printable(entry.path().filename().string()), printable(mount));
        }
        if (error) return fail(Code::Internal, "reading the layer {}: {}", layer, error.message());
    }
    return {};
}

LocalLayers local_layers(const StateDir& state, const std::vector<std::string>& stack)
{
    const std::string opaque = std::string(sys::kUserMarks) + "opaque";
    LocalLayers out;
    for (std::size_t i = 0; i < stack.size(); ++i) {
        const std::string path = fmt::format("{}/{}/u2/local", state.layers(), stack[i]);
        struct stat st{};
        if (::lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) continue;
        if (out.in.empty()) out.mode = st.st_mode & 07777;
        out.in.push_back(i);
        char value = 0;
        out.hidden = ::lgetxattr(path.c_str(), opaque.c_str(), &value, 1) == 1 && value == 'y';
        if (out.hidden) break;
    }
    return out;
}

} // namespace berth::local
