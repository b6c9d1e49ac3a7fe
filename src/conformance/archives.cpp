// Whole trees in and out.

#include "conformance/archives.hpp"

#include <algorithm>

#include "conformance/check.hpp"
#include "conformance/tar.hpp"

namespace berth::conformance {

Result<std::string> pack(Context& c, const SandboxHandle& sandbox, const std::string& directory,
                         ArchiveOptions options)
{
    auto bytes = std::make_shared<std::string>();
    const ByteSink sink = [bytes](std::string_view some) {
        *bytes += some;
        return Status{};
    };
    BERTH_CHECK(step("packing " + directory, c.await(c.backend().read_archive(sandbox, {.path = directory},
                                                                              std::move(options), sink))));
    return std::move(*bytes);
}

Status unpack(Context& c, const SandboxHandle& sandbox, const std::string& directory,
              const std::string& bytes, ArchiveLimits limits, std::size_t piece)
{
    auto at = std::make_shared<std::size_t>(0);
    const ByteSource source = [at, bytes, piece]() -> Result<std::string> {
        std::string some = bytes.substr(std::min(*at, bytes.size()), piece);
        *at += some.size();
        return some;
    };
    return step("unpacking to " + directory,
                c.await(c.backend().write_archive(sandbox, {.path = directory}, source, limits)));
}

Result<std::string> tree_of(Context& c, const SandboxHandle& sandbox, const std::string& directory)
{
    const std::string script =
        "cd {} && find . | LC_ALL=C sort | while IFS= read -r f; do "
        "if [ -h \"$f\" ]; then echo \"link $f $(readlink \"$f\")\"; "
        "elif [ -d \"$f\" ]; then echo \"dir $f $(ls -ld \"$f\" | cut -c1-10)\"; "
        "elif [ -f \"$f\" ]; then echo \"file $f $(ls -ld \"$f\" | cut -c1-10) $(cksum < \"$f\")\"; "
        "else echo \"other $f\"; fi; done";
    return c.output(sandbox, fmt::format(fmt::runtime(script), directory));
}

namespace {

constexpr std::string_view kGroup = "archives";

struct Trees {
    SandboxHandle sandbox;
    std::string from;
    std::string to;
};

/// A tree made by a script, and an empty directory for its copy.
Result<Trees> trees(Context& c, const std::string& script)
{
    Trees out;
    BERTH_TRY(out.sandbox, c.shared());
    BERTH_TRY(out.from, c.dir());
    BERTH_TRY(out.to, c.dir());
    BERTH_TRY([[maybe_unused]] const auto made,
              c.output(out.sandbox, fmt::format("cd {}\n{}", out.from, script)));
    return out;
}

Check round_trip(std::string name, std::string script)
{
    const auto run = [script](Context& c) -> Status {
        BERTH_TRY(const auto t, trees(c, script));
        BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from));
        BERTH_CHECK(unpack(c, t.sandbox, t.to, bytes));
        BERTH_TRY(const auto before, tree_of(c, t.sandbox, t.from));
        BERTH_TRY(const auto after, tree_of(c, t.sandbox, t.to));
        BERTH_CHECK(expect(before.contains('\n'), "the tree is empty"));
        return same("the copy", after, before);
    };
    return {kGroup, std::move(name), {Operation::Archive}, run};
}

Status skips(Context& c)
{
    BERTH_TRY(const auto t,
              trees(c, "mkdir -p node_modules/x keep/node_modules cache; touch node_modules/x/f "
                       "keep/node_modules/f cache/f cachefile"));
    BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from, {.skip = {"node_modules", "cache"}}));
    BERTH_CHECK(unpack(c, t.sandbox, t.to, bytes));
    BERTH_TRY(const auto seen, c.output(t.sandbox, fmt::format("cd {}; find . | LC_ALL=C sort", t.to)));
    return same("what was packed", seen,
                ".\n./cachefile\n./keep\n./keep/node_modules\n./keep/node_modules/f\n");
}

Status skips_literally(Context& c)
{
    BERTH_TRY(const auto t, trees(c, "mkdir d; touch '*' a b '[ab]' d/x 'd/*'"));
    BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from, {.skip = {"*", "[ab]", "d/*"}}));
    BERTH_CHECK(unpack(c, t.sandbox, t.to, bytes));
    BERTH_TRY(const auto seen, c.output(t.sandbox, fmt::format("cd {}; find . | LC_ALL=C sort", t.to)));
    return same("what was packed", seen, ".\n./a\n./b\n./d\n./d/x\n");
}

Status begins_with_the_root(Context& c)
{
    BERTH_TRY(const auto t, trees(c, "mkdir sub; touch sub/file"));
    BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from));
    BERTH_CHECK(expect(bytes.size() >= 1024 && bytes.size() % 512 == 0, "{} bytes are no tar", bytes.size()));
    // An extended header may stand before it; its contents end at a block.
    std::size_t at = 0;
    while (bytes[at + 156] == 'x' || bytes[at + 156] == 'g')
        at += 512 + (std::stoull(bytes.substr(at + 124, 11), nullptr, 8) + 511) / 512 * 512;
    const std::string first(bytes.c_str() + at); // a name ends with a NUL
    BERTH_CHECK(expect(first == "." || first == "./", "the first name is '{}'", first));
    return lacks("the archive", bytes, t.from.substr(1));
}

Status hard_links(Context& c)
{
    BERTH_TRY(const auto t, trees(c, "echo shared > one; ln one two"));
    BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from));
    BERTH_CHECK(unpack(c, t.sandbox, t.to, bytes));
    BERTH_TRY(const auto seen,
              c.output(t.sandbox, fmt::format("cd {}; cat one two; echo more >> one; cat two", t.to)));
    return same("the two files", seen, "shared\nshared\nshared\n");
}

Status odd_pieces(Context& c)
{
    BERTH_TRY(const auto t, trees(c, "echo a > a; head -c 5000 /dev/zero > zeros; mkdir d; echo b > d/b"));
    BERTH_TRY(const auto bytes, pack(c, t.sandbox, t.from));
    BERTH_CHECK(unpack(c, t.sandbox, t.to, bytes, {}, 7));
    BERTH_TRY(const auto before, tree_of(c, t.sandbox, t.from));
    BERTH_TRY(const auto after, tree_of(c, t.sandbox, t.to));
    return same("the copy", after, before);
}

Status keeps_what_is_there(Context& c)
{
    BERTH_TRY(const auto t, trees(c, ":"));
    BERTH_TRY(
        [[maybe_unused]] const auto made,
        c.output(t.sandbox,
                 fmt::format("cd {}; echo old > kept; echo old > over; mkdir d; echo old > d/kept", t.to)));
    BERTH_CHECK(unpack(c, t.sandbox, t.to,
                       Tar().directory("d/").file("d/new", "new\n").file("over", "new\n").done()));
    BERTH_TRY(const auto seen, c.output(t.sandbox, fmt::format("cd {}; cat kept over d/kept d/new", t.to)));
    return same("old and new files", seen, "old\nnew\nold\nnew\n");
}

Status into_what_is_missing(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_CHECK(refused("unpacking into nothing", unpack(c, sandbox, "/no/such", Tar().file("f", "x").done()),
                        Code::NotFound));
    return refused("packing nothing", pack(c, sandbox, "/no/such"), Code::NotFound);
}

Status foreign(Context& c)
{
    BERTH_TRY(const auto t, trees(c, ":"));
    const std::string name = "deep/" + std::string(150, 'n') + "/ü";
    BERTH_CHECK(unpack(c, t.sandbox, t.to,
                       Tar()
                           .directory("./")
                           .directory("deep/")
                           .pax("path", name)
                           .file("short", "pax\n")
                           .long_name("deep/" + std::string(120, 'g'))
                           .file("short", "gnu\n")
                           .done()));
    BERTH_TRY(const auto seen, c.output(t.sandbox, fmt::format("cd {}/deep; cat n*/ü g*", t.to)));
    return same("files with long names", seen, "pax\ngnu\n");
}

Status fails_with_its_sink(Context& c)
{
    BERTH_TRY(const auto t, trees(c, "head -c 1000000 /dev/zero > file"));
    const ByteSink sink = [](std::string_view) -> Status {
        return fail(Code::Exhausted, "the disk is full");
    };
    return refused("packing to a full disk",
                   c.await(c.backend().read_archive(t.sandbox, {.path = t.from}, {}, sink)), Code::Exhausted);
}

Status fails_with_its_source(Context& c)
{
    BERTH_TRY(const auto t, trees(c, ":"));
    auto calls = std::make_shared<int>(0);
    const std::string begin = Tar().file("early", "x").so_far();
    const ByteSource source = [=]() -> Result<std::string> {
        if (++*calls == 1) return begin;
        return fail(Code::Unavailable, "the connection is gone");
    };
    BERTH_CHECK(refused("a source that fails",
                        c.await(c.backend().write_archive(t.sandbox, {.path = t.to}, source, {})),
                        Code::Unavailable));
    BERTH_TRY(const auto seen, c.output(t.sandbox, "ls -A " + t.to));
    return same("what was written", seen, "");
}

Status modes_are_tamed(Context& c)
{
    BERTH_TRY(const auto t, trees(c, ":"));
    BERTH_CHECK(unpack(c, t.sandbox, t.to,
                       Tar().file("setid", "x", 06755).file("closed", "x", 0).directory("d/", 01777).done()));
    BERTH_TRY(const auto seen,
              c.output(t.sandbox,
                       fmt::format("cd {}; [ -u setid ] || [ -g setid ] || [ -k d ] || echo tame; cat closed",
                                   t.to)));
    return same("what was unpacked", seen, "tame\nx");
}

Status of_the_user(Context& c)
{
    BERTH_TRY(const auto t, trees(c, ":"));
    BERTH_CHECK(unpack(c, t.sandbox, t.to, Tar().file("f", "x").directory("d/").symlink("l", "f").done()));
    BERTH_TRY(const auto seen,
              c.output(t.sandbox, fmt::format("cd {}; test -O f && test -O d && echo ours", t.to)));
    return same("whose it is", seen, "ours\n");
}

} // namespace

std::vector<Check> archive_checks()
{
    const std::vector<Need> needs{Operation::Archive};
    return {
        round_trip("a tree comes back", "mkdir -p a/b/c; echo x > a/f; echo y > a/b/g; : > empty"),
        round_trip("modes come back",
                   "echo x > run; chmod 755 run; echo x > private; chmod 600 private; mkdir d; chmod 700 d"),
        round_trip(
            "links come back, absolute ones too",
            "ln -s /usr/bin/python3 python; ln -s missing dangling; mkdir d; ln -s ../d d/up; ln -s / root"),
        round_trip("empty directories come back", "mkdir -p one two/three"),
        round_trip("long names come back",
                   "n=$(printf %0200d 7); mkdir $n; echo x > $n/$n; ln -s $n/$n link"),
        round_trip("deep trees come back",
                   "i=0; while [ $i -lt 60 ]; do mkdir d$i; cd d$i; i=$((i+1)); done; echo x > bottom"),
        round_trip("names of many languages come back",
                   "echo x > 'grüße 日本語 🚀'; mkdir 'é'; ln -s 'é' 'ü'"),
        round_trip("names like patterns and options come back",
                   "touch -- '*' '?' '[a]' '-rf' '$HOME' 'a b' \"it's\""),
        round_trip("bytes come back", "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %03o $i)\"; "
                                      "i=$((i+1)); done > bytes; head -c 3000000 /dev/zero > zeros"),
        round_trip("hundreds of files come back",
                   "i=0; while [ $i -lt 200 ]; do echo $i > f$i; i=$((i+1)); done"),
        {kGroup, "hard links come back as files", needs, hard_links},
        {kGroup, "names are relative, the root first", needs, begins_with_the_root},
        {kGroup, "what is skipped is left out with all below it, there alone", needs, skips},
        {kGroup, "what is skipped is no pattern", needs, skips_literally},
        {kGroup, "pieces of any size make the same tree", needs, odd_pieces},
        {kGroup, "unpacking keeps what is there and replaces files", needs, keeps_what_is_there},
        {kGroup, "other programs' long names are understood", needs, foreign},
        {kGroup, "a directory that is not there is not found", needs, into_what_is_missing},
        {kGroup, "packing ends with its sink's failure", needs, fails_with_its_sink},
        {kGroup, "unpacking ends with its source's failure and writes nothing", needs, fails_with_its_source},
        {kGroup, "set-id and sticky bits are dropped, and the owner may read", needs, modes_are_tamed},
        {kGroup, "what is unpacked belongs to the user", needs, of_the_user},
    };
}

} // namespace berth::conformance
