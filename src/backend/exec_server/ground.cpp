// An exec-server is trusted to hold what it is asked to; this is where that trust is tested. Nothing here
// looks at what the server says of itself (its sandboxType is the same whether it held anything or not): a
// file is written where it must not be, a secret is read, a way out is looked for, and what can be done is
// believed.
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

// "$1": the place of the trial. Each line says what could be done.
constexpr std::string_view kTryFiles = R"(
d "$1"; p=$v
(: > "$p/work/inside") 2>/dev/null && echo writes-inside
(: > "$p/outside") 2>/dev/null
(: > "$p/tmp/../outside2") 2>/dev/null
ln -s ../secret "$p/work/link" 2>/dev/null; cat "$p/work/link" 2>/dev/null
cat "$p/secret" 2>/dev/null
[ -d /usr/bin ] && echo reads-programs
exit 0
)";

// "$1": the place of the trial. Names that the protocol does not know by itself.
constexpr std::string_view kTryNames = R"(
d "$1"; cd "$v/work" || exit 1
(: > free) 2>/dev/null && echo writes-beside
for n in .berth-kept sub/.berth-kept; do
    (echo changed > "$n/file") 2>/dev/null; (: > "$n/new") 2>/dev/null
    rm -f "$n/file" 2>/dev/null; mv "$n" moved 2>/dev/null && mv moved "$n"
done
mkdir .berth-missing 2>/dev/null; (: > .berth-missing/new) 2>/dev/null; (echo changed > .berth-missing) 2>/dev/null
exit 0
)";

// A namespace of its own has no route; where there is one, something of the machine is within reach.
constexpr std::string_view kTryNetwork = R"(
[ -r /proc/net/route ] && echo looked
n=$(cat /proc/net/route 2>/dev/null | wc -l); [ "$n" -le 1 ] || echo routes
grep -v ' lo$' /proc/net/ipv6_route 2>/dev/null | grep -q . && echo routes
command -v bash >/dev/null && bash -c 'exec 3<>/dev/tcp/$1/$2' bash "$1" "$2" 2>/dev/null && echo connects
exit 0
)";

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

bool has(const std::string& said, std::string_view word) { return said.find(word) != std::string::npos; }

Result<std::string> image_bytes()
{
    BERTH_TRY(const int image, keeping::keeper_image());
    std::string out(std::size_t{1} << 20, '\0');
    const ssize_t n = ::pread(image, out.data(), out.size(), 0);
    if (n <= 0) return fail_errno("reading the keeper");
    out.resize(static_cast<std::size_t>(n));
    return out;
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
        BERTH_TRY(relay_, find_relay(where));
    }
    return relay_;
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

Result<std::string> Ground::find_relay(const std::string& root)
{
    BERTH_TRY(const auto program, image_bytes());
    // A directory of its own: it can be shown by itself, and nothing else is looked at when it is written to.
    const std::string directory = root + "/program";
    const auto confines = confine_own(directory);
    if (auto made = server_.make_directory(directory, confine_own(root)); !made) {
        const auto before = server_.exists(directory, confine_own(root));
        if (!before || !*before) return std::unexpected(std::move(made).error());
    }
    const std::string path = fmt::format("{}/relay-{}", directory, sha256_hex(program).substr(0, 16));
    const auto there = server_.read_file(path, confines, program.size());
    if (there && *there == program) return path;
    const std::string fresh = fmt::format("{}/.relay-{}", directory, random_hex(8));
    BERTH_CHECK(server_.write_text(fresh, confines, program));
    // Renamed: a program that runs cannot be written to, and nobody starts half of one.
    const scripted::Command place{
        .script = "d \"$1\"; f=$v; d \"$2\"; chmod 555 -- \"$f\" && mv -fT -- \"$f\" \"$v\"",
        .arguments = {fresh, path},
        .user = {},
        .out = {}};
    BERTH_TRY(const auto end, server_.run(place, confines, directory));
    if (end.status.success()) return path;
    (void)server_.remove(fresh, confines);
    return std::unexpected(scripted::error_of_words(end.err, "placing berth's program at the exec-server"));
}

Status Ground::prove(const policy::Policy& policy)
{
    if (unconfined(policy)) return {};
    BERTH_CHECK(tried(Trial::Files));
    if (!policy.protected_names.empty()) BERTH_CHECK(tried(Trial::Names));
    if (policy.network == policy::Network::Off) BERTH_CHECK(tried(Trial::Network));
    return {};
}

Status Ground::tried(Trial trial)
{
    BERTH_TRY(const auto where, root());
    const std::scoped_lock lock(mutex_);
    if (const auto at = trials_.find(trial); at != trials_.end()) return at->second;
    const auto own = confine_own(where);
    const auto place = layout_of(where, ".trial-" + random_hex(8), {});
    auto judged = [&]() -> Status {
        for (const auto& directory : {place.own, place.work, place.tmp})
            BERTH_CHECK(server_.make_directory(directory, own));
        return attempt(trial, place);
    }();
    (void)server_.remove(place.own, own);
    // What could not be tried is not judged: the next one tries again.
    if (judged || judged.error().code == Code::Unsupported) trials_[trial] = judged;
    return judged;
}

Status Ground::attempt(Trial trial, const Layout& place)
{
    const auto own = confine_own(place.root);
    const std::string secret = random_hex(16);
    policy::Policy policy;
    scripted::Command command{.script = {}, .arguments = {place.own}, .user = {}, .out = {}};
    std::vector<std::string> deeper;
    const auto run = [&]() -> Result<std::string> {
        BERTH_TRY(const auto confines, confine(policy, policy, place, deeper));
        BERTH_TRY(const auto end, server_.run(command, confines, place.work));
        return end.out;
    };
    const auto broken = [](std::string_view what) {
        return fail(
            Code::Unsupported,
            "this exec-server does not hold what it is asked to: {}; only full-access with --net host, "
            "which asks for nothing, can be had there",
            what);
    };
    switch (trial) {
    case Trial::Files: {
        BERTH_CHECK(server_.write_text(place.own + "/secret", own, secret));
        command.script = kTryFiles;
        BERTH_TRY(const auto said, run());
        if (!has(said, "writes-inside") || !has(said, "reads-programs"))
            return fail(Code::Unsupported, "the exec-server lets nobody work in its own directory: {}",
                        printable(said, 200));
        // Some have a throw-away root, where anything can be written: what counts is what is there
        // afterwards.
        for (const char* name : {"/outside", "/outside2"}) {
            BERTH_TRY(const bool there, server_.exists(place.own + name, own));
            if (there) return broken("a command wrote outside of its workspace");
        }
        if (has(said, secret)) return broken("a command read what it was not shown");
        return {};
    }
    case Trial::Names: {
        const std::string deep = place.work + "/sub/.berth-kept";
        for (const auto& directory : {place.work + "/sub", deep, place.work + "/.berth-kept"})
            BERTH_CHECK(server_.make_directory(directory, own));
        for (const auto& directory : {deep, place.work + "/.berth-kept"})
            BERTH_CHECK(server_.write_text(directory + "/file", own, secret));
        policy.files = {{policy::Access::Read, policy::Symbolic{policy::Symbol::Root, {}}},
                        {policy::Access::Write, policy::Symbolic{policy::Symbol::WorkspaceRoots, {}}}};
        policy.protected_names = {".berth-kept", ".berth-missing"};
        BERTH_TRY(deeper, find_deeper(server_, policy, policy, place));
        command.script = kTryNames;
        BERTH_TRY(const auto said, run());
        if (!has(said, "writes-beside"))
            return fail(Code::Unsupported, "the exec-server lets nobody write beside a protected name");
        for (const auto& directory : {deep, place.work + "/.berth-kept"}) {
            const auto kept = server_.read_file(directory + "/file", own, 256);
            if (!kept || *kept != secret) return broken("a command changed what has a protected name");
            BERTH_TRY(const bool made, server_.exists(directory + "/new", own));
            if (made) return broken("a command made something in what has a protected name");
        }
        BERTH_TRY(const bool made, server_.exists(place.work + "/.berth-missing", own));
        if (made) return broken("a command made something of a protected name");
        return {};
    }
    case Trial::Network: {
        command.script = kTryNetwork;
        command.arguments = {server_.config().place.host, std::to_string(server_.config().place.port)};
        BERTH_TRY(const auto said, run());
        if (!has(said, "looked"))
            return fail(Code::Unsupported, "the network of the exec-server cannot be looked at");
        if (has(said, "routes")) return broken("a command without network has routes");
        if (has(said, "connects")) return broken("a command without network made a connection");
        return {};
    }
    }
    return {};
}

} // namespace berth::exec_server
