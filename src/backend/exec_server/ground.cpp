#include "backend/exec_server/ground.hpp"

#include <unistd.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "keeping/keeper_image.hpp"

namespace berth::exec_server {

namespace {

constexpr const char* kDirectory = "berth-sandboxes";

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

constexpr std::size_t kMostProgram = std::size_t{16} << 20;

Result<std::string> bytes_of(int program)
{
    std::string out;
    std::string piece(std::size_t{1} << 16, '\0');
    for (;;) {
        const ssize_t n = ::pread(program, piece.data(), piece.size(), static_cast<off_t>(out.size()));
        if (n < 0) return fail_errno("reading a program of ours");
        if (n == 0) return out;
        out.append(piece, 0, static_cast<std::size_t>(n));
        if (out.size() > kMostProgram)
            return fail(Code::Invalid, "a program of more than {} MiB is not carried", kMostProgram >> 20);
    }
}

} // namespace

Result<std::string> Ground::root()
{
    const std::scoped_lock lock(mutex_);
    if (root_.empty()) {
        BERTH_TRY(root_, find_root());
    }
    return root_;
}

Result<std::string> Ground::find_root()
{
    std::string root = server_.config().root;
    for (const std::string_view member : {"userHomeDir", "tempDir"}) {
        if (!root.empty()) break;
        BERTH_TRY(const auto above, server_.told_path(member));
        if (!above.empty()) root = fmt::format("{}/{}", above == "/" ? "" : above, kDirectory);
    }
    if (root.empty())
        return fail(Code::Invalid, "the exec-server does not say where a directory can be made: set "
                                   "BERTH_EXEC_SERVER_ROOT");
    const auto there = server_.exists(root, confine_own(root));
    if (there && *there) return root;
    if (!there && (there.error().code == Code::Unavailable || there.error().code == Code::DeadlineExceeded))
        return std::unexpected(there.error());
    // What is not there cannot be granted: the directory above it is, for this one step.
    auto made = server_.make_directory(root, confine_own(parent_of(root)));
    if (made) {
        const scripted::Command close{
            .script = "d \"$1\"; chmod 700 -- \"$v\"", .arguments = {root}, .user = {}, .out = {}};
        (void)server_.run(close, confine_own(root),
                          root); // its neighbours on that machine; no sandbox sees it
        return root;
    }
    auto why = std::move(made).error();
    const auto again = server_.exists(root, confine_own(root)); // somebody else was faster
    if (again && *again) return root;
    why.message += "; name a directory for sandboxes in BERTH_EXEC_SERVER_ROOT";
    return std::unexpected(std::move(why));
}

Result<std::string> Ground::relay()
{
    BERTH_TRY(const auto where, root());
    const std::scoped_lock lock(mutex_);
    if (relay_.empty()) {
        BERTH_TRY(const int image, keeping::keeper_image());
        BERTH_TRY(relay_, place(where, image, "relay"));
    }
    return relay_;
}

Result<std::string> Ground::program(int image)
{
    BERTH_TRY(const auto where, root());
    const std::scoped_lock lock(mutex_);
    return place(where, image, "program");
}

Result<std::string> Ground::id()
{
    BERTH_TRY(const auto where, root());
    const std::scoped_lock lock(mutex_);
    if (!id_.empty()) return id_;
    const auto own = confine_own(where);
    const std::string file = where + "/berth-id";
    auto there = server_.read_file(file, own, 256);
    if (!there && there.error().code != Code::NotFound) return there;
    if (!there) {
        BERTH_CHECK(server_.write_text(file, own, random_hex(16)));
        there = server_.read_file(file, own, 256); // of two that write at once, all take what stays
        if (!there) return there;
    }
    id_ = *std::move(there);
    return id_;
}

Result<std::string> Ground::place(const std::string& root, int image, std::string_view stem)
{
    BERTH_TRY(const auto program, bytes_of(image));
    // A directory of its own: it can be shown by itself, and nothing else is looked at when it is written to.
    const std::string directory = root + "/program";
    const std::string path = fmt::format("{}/{}-{}", directory, stem, sha256_hex(program).substr(0, 16));
    if (placed_.contains(path)) return path;
    const auto confines = confine_own(directory);
    if (auto made = server_.make_directory(directory, confine_own(root)); !made) {
        const auto before = server_.exists(directory, confine_own(root));
        if (!before || !*before) return std::unexpected(std::move(made).error());
    }
    const auto there = server_.read_file(path, confines, program.size());
    if (there && *there == program) return *placed_.insert(path).first;
    const std::string fresh = fmt::format("{}/.{}-{}", directory, stem, random_hex(8));
    BERTH_CHECK(server_.write_text(fresh, confines, program));
    // Renamed: a program that runs cannot be written to, and nobody starts half of one.
    const scripted::Command put{
        .script = "d \"$1\"; f=$v; d \"$2\"; chmod 555 -- \"$f\" && mv -fT -- \"$f\" \"$v\"",
        .arguments = {fresh, path},
        .user = {},
        .out = {}};
    BERTH_TRY(const auto end, server_.run(put, confines, directory));
    if (end.status.success()) return *placed_.insert(path).first;
    (void)server_.remove(fresh, confines);
    return std::unexpected(scripted::error_of_words(end.err, "placing berth's program at the exec-server"));
}

} // namespace berth::exec_server
