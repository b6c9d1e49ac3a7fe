// Files of a sandbox, touched from outside: whole, with the rights of its user, and told apart where they
// are missing, forbidden or something else.

#include <algorithm>

#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "core/moves_over.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "files";

struct Dir {
    SandboxHandle sandbox;
    std::string path;
};

Result<Dir> some_dir(Context& c)
{
    Dir out;
    BERTH_TRY(out.sandbox, c.shared());
    BERTH_TRY(out.path, c.dir());
    return out;
}

Check round_trip(std::string name, std::size_t size)
{
    const auto run = [size](Context& c) -> Status {
        BERTH_TRY(const auto dir, some_dir(c));
        std::string bytes(size, '\0');
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 31 + i / 251);
        const std::string path = dir.path + "/file";
        BERTH_CHECK(c.write(dir.sandbox, path, bytes));
        BERTH_TRY(const auto back, c.read(dir.sandbox, path));
        BERTH_CHECK(same("what was read", back, bytes));
        BERTH_TRY(const auto seen, c.output(dir.sandbox, "wc -c < " + path));
        BERTH_CHECK(same(
            "its size inside",
            static_cast<std::size_t>(std::stoull("0" + seen.substr(seen.find_first_not_of(' ')))), size));
        BERTH_TRY(const auto entry, c.await(c.backend().stat_file(dir.sandbox, {.path = path})));
        return same("its size told", entry.size.count, std::uint64_t{size});
    };
    return {kGroup, std::move(name), {}, run};
}

Check named(std::string name, std::string file)
{
    const auto run = [file](Context& c) -> Status {
        BERTH_TRY(const auto dir, some_dir(c));
        BERTH_CHECK(c.write(dir.sandbox, dir.path + "/" + file, "x"));
        BERTH_TRY(const auto all, c.await(c.backend().list_files(dir.sandbox, {.path = dir.path})));
        BERTH_CHECK(same("the number of entries", all.size(), std::size_t{1}));
        BERTH_CHECK(same("the name listed", all[0].name, file));
        auto exec = Context::shell("cd \"$1\" && cat -- \"$2\"");
        exec.argv.insert(exec.argv.end(), {"sh", dir.path, file});
        BERTH_TRY(const auto ran, c.run(dir.sandbox, exec));
        BERTH_CHECK(same("the file inside", ran.out, "x"));
        return step("removing it", c.await(c.backend().remove_file(
                                       dir.sandbox, {.path = dir.path + "/" + file}, RemoveTree::No)));
    };
    return {kGroup, std::move(name), {}, run};
}

Status over_the_limit(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    const std::string path = dir.path + "/file";
    BERTH_CHECK(c.write(dir.sandbox, path, std::string(1001, 'x')));
    BERTH_CHECK(refused("a file above the limit",
                        c.await(c.backend().read_file(dir.sandbox, {.path = path}, Bytes{1000})),
                        Code::Invalid));
    BERTH_TRY(const auto exact, c.await(c.backend().read_file(dir.sandbox, {.path = path}, Bytes{1001})));
    return same("a file at the limit", exact.size(), std::size_t{1001});
}

Status endless(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    return refused("a device without end",
                   c.await(c.backend().read_file(sandbox, {.path = "/dev/zero"}, 1_MiB)));
}

Status replaces_atomically(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    const std::string path = dir.path + "/file";
    const std::string a(200'000, 'a'), b(100'000, 'b');
    BERTH_CHECK(c.write(dir.sandbox, path, a));
    auto reader = Context::shell(fmt::format(
        "echo ready; i=0; while [ ! -e {0}/stop ]; do cksum < {0}/file >> {0}/sums; done", dir.path));
    BERTH_CHECK(c.start(dir.sandbox, reader));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(dir.sandbox, reader.id, "ready", from));
    for (int i = 0; i < 20; ++i) BERTH_CHECK(c.write(dir.sandbox, path, i % 2 == 0 ? b : a));
    BERTH_CHECK(c.write(dir.sandbox, dir.path + "/stop", ""));
    BERTH_TRY([[maybe_unused]] const auto status, c.ended(dir.sandbox, reader.id));
    BERTH_TRY(const auto seen,
              c.output(dir.sandbox, fmt::format("sort -u {}/sums | cut -d' ' -f2 | sort -u", dir.path)));
    for (const auto& size : {"100000\n", "200000\n", "100000\n200000\n"})
        if (seen == size) return {};
    return fail(Code::Internal, "a reader saw files of these sizes: {}", seen);
}

Status leaves_no_temporaries(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    for (int i = 0; i < 5; ++i) BERTH_CHECK(c.write(dir.sandbox, dir.path + "/file", "x"));
    BERTH_TRY(const auto seen, c.output(dir.sandbox, "ls -a " + dir.path));
    return same("what is in the directory", seen, ".\n..\nfile\n");
}

Status modes(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    const std::string path = dir.path + "/file";
    for (const unsigned mode : {0600u, 0755u, 0444u, 0640u}) {
        BERTH_CHECK(c.write(dir.sandbox, path, "x", mode));
        BERTH_TRY(const auto entry, c.await(c.backend().stat_file(dir.sandbox, {.path = path})));
        BERTH_CHECK(same("its mode", entry.mode, mode));
    }
    BERTH_CHECK(c.write(dir.sandbox, path, "again"));
    BERTH_TRY(const auto entry, c.await(c.backend().stat_file(dir.sandbox, {.path = path})));
    return same("its mode when none is asked for", entry.mode, 0640u);
}

Status never_set_id(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    (void)c.write(dir.sandbox, dir.path + "/file", "x", 06755);
    BERTH_TRY(const auto seen,
              c.output(dir.sandbox, fmt::format("cd {}; [ -u file ] || [ -g file ] || echo no", dir.path)));
    return same("a set-id file", seen, "no\n");
}

Status missing(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    const FilePath path{.path = dir.path + "/missing"};
    auto& b = c.backend();
    BERTH_CHECK(refused("reading", c.await(b.read_file(dir.sandbox, path, 1_MiB)), Code::NotFound));
    BERTH_CHECK(refused("looking", c.await(b.stat_file(dir.sandbox, path)), Code::NotFound));
    BERTH_CHECK(refused("listing", c.await(b.list_files(dir.sandbox, path)), Code::NotFound));
    BERTH_CHECK(
        refused("removing", c.await(b.remove_file(dir.sandbox, path, RemoveTree::No)), Code::NotFound));
    BERTH_CHECK(refused("moving", c.await(b.move_file(dir.sandbox, path, dir.path + "/to")), Code::NotFound));
    return refused("writing below it",
                   c.await(b.write_file(dir.sandbox, {.path = path.path + "/file"}, "x", {})),
                   Code::NotFound);
}

Status forbidden(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    BERTH_TRY(const auto who, c.output(dir.sandbox, "id -u"));
    if (who == "0\n") return c.skip("the user of the sandbox is root: nothing is forbidden");
    const std::string script =
        "cd {}; mkdir closed; echo x > closed/file; chmod 000 closed; echo y > file; chmod 000 file";
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(dir.sandbox, fmt::format(fmt::runtime(script), dir.path)));
    auto& b = c.backend();
    BERTH_CHECK(refused("a file without rights",
                        c.await(b.read_file(dir.sandbox, {.path = dir.path + "/file"}, 1_MiB)),
                        Code::Denied));
    BERTH_CHECK(refused("a file in a closed directory",
                        c.await(b.read_file(dir.sandbox, {.path = dir.path + "/closed/file"}, 1_MiB)),
                        Code::Denied));
    return refused("a list of a closed directory",
                   c.await(b.list_files(dir.sandbox, {.path = dir.path + "/closed"})), Code::Denied);
}

Status rights_of_the_user(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    // Where a sandbox has one id only, all of its files belong to it; then a command may, and so may this.
    for (const std::string dir : {"/etc", "/", "/usr/bin"}) {
        BERTH_TRY(const auto inside,
                  c.output(sandbox, fmt::format("test -w {} && echo yes || echo no", dir)));
        const auto written = c.write(sandbox, dir + "/berth-check", "x");
        if (inside == "no\n") BERTH_CHECK(refused("writing to " + dir, written, Code::Denied));
        if (inside == "yes\n") BERTH_CHECK(step("as a command may", written));
    }
    return {};
}

Status as_another_user(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const FilePath path{.path = "/root-only", .user = "root"};
    BERTH_CHECK(step("writing as root", c.await(c.backend().write_file(sandbox, path, "x", 0600))));
    BERTH_TRY(const auto bytes, c.await(c.backend().read_file(sandbox, path, 1_MiB)));
    BERTH_CHECK(same("the file", bytes, "x"));
    BERTH_CHECK(refused("the file as the usual user", c.read(sandbox, path.path), Code::Denied));
    auto exec = Context::shell("test -O /root-only && echo of root");
    exec.user = "root";
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return same("whose it is", ran.out, "of root\n");
}

Status something_else(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(dir.sandbox, fmt::format("cd {}; mkdir d; mkfifo p; touch f", dir.path)));
    auto& b = c.backend();
    const auto at = [&](const char* name) { return FilePath{.path = dir.path + "/" + name}; };
    BERTH_CHECK(
        refused("reading a directory", c.await(b.read_file(dir.sandbox, at("d"), 1_MiB)), Code::Invalid));
    BERTH_CHECK(refused("reading a pipe", c.await(b.read_file(dir.sandbox, at("p"), 1_MiB)), Code::Invalid));
    BERTH_CHECK(refused("listing a file", c.await(b.list_files(dir.sandbox, at("f"))), Code::Invalid));
    BERTH_CHECK(refused("writing over a directory", c.await(b.write_file(dir.sandbox, at("d"), "x", {}))));
    BERTH_CHECK(
        refused("a path through a file", c.await(b.stat_file(dir.sandbox, at("f/x"))), Code::Invalid));
    BERTH_TRY(const auto entry, c.await(b.stat_file(dir.sandbox, at("p"))));
    return same("the kind of a pipe", entry.kind, FileEntry::Kind::Other);
}

Status lists(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(dir.sandbox,
                       fmt::format("cd {}; mkdir dir; printf abc > file; ln -s file link; touch .hidden",
                                   dir.path)));
    BERTH_TRY(auto all, c.await(c.backend().list_files(dir.sandbox, {.path = dir.path})));
    std::ranges::sort(all, {}, &FileEntry::name);
    BERTH_CHECK(same("the number of entries", all.size(), std::size_t{4}));
    BERTH_CHECK(same("a hidden one", all[0].name, ".hidden"));
    BERTH_CHECK(same("the kind of a directory", all[1].kind, FileEntry::Kind::Directory));
    BERTH_CHECK(same("the kind of a file", all[2].kind, FileEntry::Kind::Regular));
    BERTH_CHECK(same("the size of a file", all[2].size.count, std::uint64_t{3}));
    BERTH_CHECK(same("the kind of a link", all[3].kind, FileEntry::Kind::Symlink));
    BERTH_CHECK(same("the target of a link", all[3].target, "file"));
    const auto age = system_clock().now() - all[2].modified;
    return expect(age > -60s && age < 600s, "a file made now has another time");
}

Status lists_many(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    BERTH_TRY(
        [[maybe_unused]] const auto made,
        c.output(dir.sandbox,
                 fmt::format("cd {}; i=0; while [ $i -lt 2000 ]; do : > f$i; i=$((i+1)); done", dir.path)));
    BERTH_TRY(const auto all, c.await(c.backend().list_files(dir.sandbox, {.path = dir.path})));
    return same("the number of entries", all.size(), std::size_t{2000});
}

Status directories(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    auto& b = c.backend();
    const FilePath deep{.path = dir.path + "/a/b/c"};
    BERTH_CHECK(refused("without its parents", c.await(b.make_dir(dir.sandbox, deep, MakeParents::No)),
                        Code::NotFound));
    BERTH_CHECK(step("with its parents", c.await(b.make_dir(dir.sandbox, deep, MakeParents::Yes))));
    BERTH_CHECK(step("with its parents, again", c.await(b.make_dir(dir.sandbox, deep, MakeParents::Yes))));
    BERTH_CHECK(refused("where there is one", c.await(b.make_dir(dir.sandbox, deep, MakeParents::No)),
                        Code::Conflict));
    BERTH_TRY(const auto entry, c.await(b.stat_file(dir.sandbox, deep)));
    return same("its kind", entry.kind, FileEntry::Kind::Directory);
}

Status removes(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    auto& b = c.backend();
    const FilePath tree{.path = dir.path + "/tree"};
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(dir.sandbox, fmt::format("mkdir -p {0}/a/b; touch {0}/a/f", tree.path)));
    BERTH_CHECK(refused("a full directory", c.await(b.remove_file(dir.sandbox, tree, RemoveTree::No)),
                        Code::Conflict));
    BERTH_CHECK(step("the whole tree", c.await(b.remove_file(dir.sandbox, tree, RemoveTree::Yes))));
    return refused("the tree", c.await(b.stat_file(dir.sandbox, tree)), Code::NotFound);
}

Status moves(Context& c)
{
    BERTH_TRY(const auto dir, some_dir(c));
    auto& b = c.backend();
    BERTH_CHECK(c.write(dir.sandbox, dir.path + "/one", "1", 0600));
    BERTH_CHECK(
        step("moving it", c.await(b.move_file(dir.sandbox, {.path = dir.path + "/one"}, dir.path + "/two"))));
    BERTH_CHECK(refused("the old name", c.read(dir.sandbox, dir.path + "/one"), Code::NotFound));
    BERTH_TRY(const auto bytes, c.read(dir.sandbox, dir.path + "/two"));
    BERTH_CHECK(same("the file", bytes, "1"));
    BERTH_CHECK(c.write(dir.sandbox, dir.path + "/three", "3"));
    BERTH_CHECK(refused("over another file",
                        c.await(b.move_file(dir.sandbox, {.path = dir.path + "/two"}, dir.path + "/three")),
                        Code::Conflict));
    BERTH_TRY(const auto kept, c.read(dir.sandbox, dir.path + "/three"));
    return same("the other file", kept, "3");
}

Status moves_over(Context& c)
{
    auto* const over = dynamic_cast<MovesOver*>(&c.backend());
    if (over == nullptr) return {};
    BERTH_TRY(const auto dir, some_dir(c));
    const auto move = [&](const std::string& from, const std::string& to) {
        return c.await(over->move_over(dir.sandbox, {.path = dir.path + from}, dir.path + to));
    };
    BERTH_CHECK(c.write(dir.sandbox, dir.path + "/one", "1"));
    BERTH_CHECK(c.write(dir.sandbox, dir.path + "/two", "2"));
    BERTH_CHECK(step("over another file", move("/one", "/two")));
    BERTH_TRY(const auto bytes, c.read(dir.sandbox, dir.path + "/two"));
    BERTH_CHECK(same("the file", bytes, "1"));
    BERTH_CHECK(refused("the old name", c.read(dir.sandbox, dir.path + "/one"), Code::NotFound));
    BERTH_CHECK(step("over itself", move("/two", "/two")));
    BERTH_CHECK(refused("what is not there", move("/none", "/two"), Code::NotFound));
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(dir.sandbox, fmt::format("cd {} && mkdir -p a/f b full/f", dir.path)));
    BERTH_CHECK(refused("a file over a directory", move("/two", "/b")));
    BERTH_CHECK(refused("over a full directory", move("/a", "/full")));
    BERTH_CHECK(step("over an empty directory", move("/a", "/b")));
    BERTH_TRY(const auto entry, c.await(c.backend().stat_file(dir.sandbox, {.path = dir.path + "/b/f"})));
    BERTH_CHECK(same("what it held", entry.kind, FileEntry::Kind::Directory));
    BERTH_TRY(const auto still, c.read(dir.sandbox, dir.path + "/two"));
    return same("the file after all that", still, "1");
}

} // namespace

std::vector<Check> file_checks()
{
    return {
        round_trip("an empty file comes back", 0),
        round_trip("one byte comes back", 1),
        round_trip("a megabyte comes back", 1 << 20),
        round_trip("sixteen megabytes and one byte come back", (16 << 20) + 1),
        named("a name with spaces and quotes is a name", "it's \"a\" name"),
        named("a name with a newline is a name", "two\nlines"),
        named("a name of many languages is a name", "grüße 日本語 🚀"),
        named("a name that is no UTF-8 is a name", "a\xff\xfez"),
        named("a name like an option or a pattern is a name", "-rf * [a] $x"),
        named("a name of 255 bytes is a name", std::string(255, 'n')),
        {kGroup, "a file above the limit is invalid", {}, over_the_limit},
        {kGroup, "what has no end is not read", {}, endless},
        {kGroup, "a reader sees the old file or the new one", {}, replaces_atomically},
        {kGroup, "writing leaves nothing beside the file", {}, leaves_no_temporaries},
        {kGroup, "a file gets its mode and keeps it", {}, modes},
        {kGroup, "a file is never made set-id", {}, never_set_id},
        {kGroup, "what is missing is not found", {}, missing},
        {kGroup, "what the user may not read is denied", {}, forbidden},
        {kGroup, "a write has the rights of a command, no more and no less", {}, rights_of_the_user},
        {kGroup, "another user's files are touched with his rights", {Operation::Users}, as_another_user},
        {kGroup, "what is no such file is invalid, and nobody waits for it", {}, something_else},
        {kGroup, "a list tells kinds, sizes, links and times", {}, lists},
        {kGroup, "a list of thousands is complete", {}, lists_many},
        {kGroup, "directories are made, with their parents if asked", {}, directories},
        {kGroup, "a tree is removed only if asked", {}, removes},
        {kGroup, "a move replaces nothing", {}, moves},
        {kGroup, "a move over another file replaces it, or leaves it", {}, moves_over},
    };
}

} // namespace berth::conformance
