#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "cli/copy_path.hpp"
#include "cli/host_copy.hpp"
#include "cli/remote.hpp"

namespace berth::cli::remote {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;
constexpr std::chrono::minutes kPatience{2};

struct CpWish {
    Common common;
    std::string from, to, user;
};

/// Inside, a path that begins nowhere begins at the home.
std::string inside(const std::string& path) { return path.starts_with('/') ? path : "/home/user/" + path; }

std::string query(const CpWish& o, const std::string& path)
{
    std::string out = "?path=" + http_client::url_encode(path);
    if (!o.user.empty()) out += "&user=" + http_client::url_encode(o.user);
    return out;
}

std::string kind_there(Server& server, const CpWish& o, const std::string& sandbox, const std::string& path)
{
    const auto found = server.call("GET", sandbox + "/stat" + query(o, path));
    const auto* const kind = found ? found->if_contains("kind") : nullptr;
    return kind != nullptr && kind->is_string() ? std::string(kind->get_string()) : std::string{};
}

/// A file without a name: gone with us.
Result<UniqueFd> aside()
{
    const char* const place = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): before any thread
    return make_spool(place == nullptr || *place == '\0' ? "/tmp" : place);
}

Result<int> upload_tree(Server& server, const CpWish& o, const CopyPath& from, const CopyPath& to,
                        HostSource source)
{
    BERTH_TRY(const auto sandbox, use(server, to.ref));
    const std::string path = inside(to.path);
    const bool there = kind_there(server, o, sandbox, join(path, ".")) == "directory";
    const auto target = tree_target(path, there, from);
    if (target.make) BERTH_CHECK(server.call("PUT", sandbox + "/directory" + query(o, target.directory)));
    BERTH_TRY(auto bytes, host_archive(std::move(source.start), "."));
    BERTH_CHECK(server.upload(sandbox + "/archive" + query(o, target.directory), std::move(bytes)));
    return 0;
}

/// What comes from there is hostile: it is judged as a whole before anything of it is written.
Result<int> download_tree(Server& server, const CpWish& o, const std::string& sandbox, const CopyPath& from,
                          const CopyPath& to)
{
    const std::string source = sandbox + "/archive" + query(o, inside(from.path));
    if (to.kind == CopyPath::Kind::Stream) {
        if (::isatty(STDOUT_FILENO) == 1)
            return fail(Code::Invalid,
                        "a directory comes as a tar, which is nothing for a terminal: add > FILE");
        BERTH_CHECK(server.stream(
            source, [](std::string_view bytes) { return write_all(STDOUT_FILENO, bytes); }, kPatience));
        return 0;
    }
    BERTH_TRY(const auto file, aside());
    BERTH_CHECK(server.stream(
        source, [&](std::string_view bytes) { return write_all(file.get(), bytes); }, kPatience));
    BERTH_CHECK(rewind(file.get()));
    BERTH_TRY(const bool there, is_host_directory(to.path));
    BERTH_CHECK(unpack_tree(file.get(), tree_target(to.path, there, from), ArchiveLimits::whole_tree()));
    return 0;
}

Result<int> upload(Server& server, const CpWish& o, const CopyPath& from, const CopyPath& to)
{
    UniqueFd opened;
    int source = STDIN_FILENO;
    if (from.kind == CopyPath::Kind::Host) {
        BERTH_TRY(auto looked, open_host(from.path));
        if (looked.directory) return upload_tree(server, o, from, to, std::move(looked));
        opened.reset(::open(from.path.c_str(), O_RDONLY | O_CLOEXEC));
        if (!opened) return fail_errno("opening {}", printable(from.path));
        source = opened.get();
    }
    BERTH_TRY(const auto sandbox, use(server, to.ref));
    const bool there = kind_there(server, o, sandbox, join(inside(to.path), ".")) == "directory";
    BERTH_TRY(const auto target, file_target(inside(to.path), there, from.name()));
    const ByteSource read = [source]() -> Result<std::string> {
        std::string piece(kPiece, '\0');
        const auto n = ::read(source, piece.data(), piece.size());
        if (n < 0) return fail_errno("reading");
        piece.resize(static_cast<std::size_t>(n));
        return piece;
    };
    BERTH_CHECK(server.upload(sandbox + "/files" + query(o, join(target.directory, target.name)), read));
    return 0;
}

Result<int> download(Server& server, const CpWish& o, const CopyPath& from, const CopyPath& to)
{
    BERTH_TRY(const auto sandbox, use(server, from.ref));
    const std::string path = inside(from.path);
    if (kind_there(server, o, sandbox, join(path, ".")) == "directory")
        return download_tree(server, o, sandbox, from, to);
    const std::string source = sandbox + "/files" + query(o, path);
    if (to.kind == CopyPath::Kind::Stream) {
        BERTH_CHECK(server.stream(
            source, [](std::string_view bytes) { return write_all(STDOUT_FILENO, bytes); }, kPatience));
        return 0;
    }
    struct stat st{};
    const bool there = ::stat(to.path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
    BERTH_TRY(const auto target, file_target(to.path, there, from.name()));
    const std::string name = join(target.directory, target.name);
    BERTH_CHECK(may_replace(AT_FDCWD, name));
    // One that breaks off changes nothing.
    const std::string part = fmt::format("{}.part-{}", name, random_hex(6));
    const UniqueFd file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file) return fail_errno("making {}", printable(part));
    ScopeExit undo([&] { ::unlink(part.c_str()); });
    BERTH_CHECK(server.stream(
        source, [&](std::string_view bytes) { return write_all(file.get(), bytes); }, kPatience));
    if (::rename(part.c_str(), name.c_str()) != 0) return fail_errno("making {}", printable(name));
    undo.dismiss();
    return 0;
}

Result<int> copy(Server& server, const CpWish& o)
{
    BERTH_TRY(const auto from, parse_copy_path(o.from));
    BERTH_TRY(const auto to, parse_copy_path(o.to));
    const bool in = to.kind == CopyPath::Kind::Sandbox;
    const bool out = from.kind == CopyPath::Kind::Sandbox;
    if (!in && !out) return fail(Code::Invalid, "neither side is in a sandbox: REF:path is");
    if (in && out)
        return fail(
            Code::Unsupported,
            "between two sandboxes nothing is copied through a server: copy it by way of this machine");
    return in ? upload(server, o, from, to) : download(server, o, from, to);
}

} // namespace

int cp_verb(Server& server, int argc, char** argv)
{
    CLI::App app("Copy files and directories to or from a sandbox on the server; '-' is our own stream.\n\n"
                 "Example:\n  berth cp notes.txt mybox:/home/user/ --server http://127.0.0.1:7600\n",
                 "berth cp");
    CpWish o;
    app.add_option("from", o.from, "What: a path, REF:path, or -")->type_name("SRC")->required();
    app.add_option("to", o.to, "Where to")->type_name("DST")->required();
    app.add_option("-u,--user", o.user, "As this user inside")->type_name("USER");
    add_common(app, o.common);
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = copy(server, o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli::remote
