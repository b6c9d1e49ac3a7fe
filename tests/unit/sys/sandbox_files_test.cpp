#include "sys/sandbox_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "base/io.hpp"
#include "temp_dir.hpp"

namespace berth::sys {
namespace {

/// A root like a sandbox's, owned by the ids the files are touched with: as root a mapped id,
/// as an ordinary user the user's own.
struct Sandbox {
    TempDir dir;
    FileCredentials ids;
    Sandbox()
    {
        const bool root = ::geteuid() == 0;
        ids = {.uid = root ? 1'879'048'192u : ::geteuid(), .gid = root ? 1'879'048'192u : ::getegid()};
        dir.make_dir("root");
        own("root");
        EXPECT_EQ(::chmod(dir.path().c_str(), 0711), 0);
    }
    void own(const std::string& name) const
    {
        EXPECT_EQ(::lchown((dir / name).c_str(), ids.uid, ids.gid), 0);
    }
    void file(const std::string& name, const std::string& bytes, unsigned mode = 0644) const
    {
        dir.write("root/" + name, bytes, mode);
        own("root/" + name);
    }
    void directory(const std::string& name, unsigned mode = 0755) const
    {
        dir.make_dir("root/" + name, mode);
        own("root/" + name);
    }
    [[nodiscard]] SandboxFiles files() const
    {
        auto opened = SandboxFiles::open(*open_dir(dir / "root"), ids);
        EXPECT_TRUE(opened) << opened.error().line();
        return std::move(*opened);
    }
};

TEST(SandboxFiles, ReadsAndWrites)
{
    const Sandbox box;
    const auto files = box.files();
    const auto written = files.write("/a.txt", "hello");
    ASSERT_TRUE(written) << written.error().line();
    EXPECT_EQ(*files.read("/a.txt", 64_B), "hello");
    EXPECT_EQ(*files.read("a.txt", 64_B), "hello");
    const auto entry = files.stat("/a.txt");
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->name, "a.txt");
    EXPECT_EQ(entry->kind, FileKind::Regular);
    EXPECT_EQ(entry->size, 5_B);
    EXPECT_EQ(entry->mode, 0644u);
    EXPECT_EQ(entry->uid, box.ids.uid) << "belongs to the mapped id";
}

TEST(SandboxFiles, TellsMissingFromForbiddenFromUnfit)
{
    if (::geteuid() != 0) GTEST_SKIP() << "needs a file of another user; enable with: sudo unit_sys";
    const Sandbox box;
    const auto files = box.files();
    box.dir.write("root/secret", "x", 0600); // host root's
    box.dir.make_dir("root/closed", 0700);
    EXPECT_EQ(files.read("/none", 1_KiB).error().code, Code::NotFound);
    EXPECT_EQ(files.read("/secret", 1_KiB).error().code, Code::Denied);
    EXPECT_EQ(files.read("/closed/x", 1_KiB).error().code, Code::Denied) << "absence is not certain";
    EXPECT_EQ(files.list("/closed").error().code, Code::Denied);
    EXPECT_EQ(files.write("/secret", "y", {.how = WriteOptions::How::InPlace}).error().code, Code::Denied);
    EXPECT_EQ(files.remove("/closed/x").error().code, Code::Denied);
    EXPECT_EQ(files.read("/", 1_KiB).error().code, Code::Invalid);
}

TEST(SandboxFiles, TheCallerKeepsItsOwnRights)
{
    const Sandbox box;
    const int dumpable = ::prctl(PR_GET_DUMPABLE);
    const auto uid = ::geteuid();
    const auto mask = ::umask(022);
    const auto files = box.files();
    ASSERT_TRUE(files.write("/f", "x"));
    EXPECT_EQ(::geteuid(), uid);
    EXPECT_EQ(::umask(mask), 022u);
    EXPECT_EQ(::prctl(PR_GET_DUMPABLE), dumpable);
    EXPECT_EQ(static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))), uid);
}

TEST(SandboxFiles, RefusesIdsItCannotTake)
{
    if (::geteuid() == 0)
        GTEST_SKIP()
            << "root may take any id; enable with: setpriv --reuid=1000 --regid=1000 --clear-groups unit_sys";
    const TempDir dir;
    const auto opened =
        SandboxFiles::open(*open_dir(dir.path()), {.uid = 1'879'048'192, .gid = 1'879'048'192});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::Denied);
}

TEST(SandboxFiles, ALinkCannotLeaveTheRoot)
{
    const Sandbox box;
    box.dir.write("host-secret", "host");
    box.dir.link(box.dir / "host-secret", "root/absolute");
    box.dir.link("../host-secret", "root/relative");
    box.dir.link("../../../../../../../../../etc/passwd", "root/far");
    box.dir.link("/", "root/slash");
    const auto files = box.files();
    for (const char* path : {"/absolute", "/relative", "/far", "../host-secret", "/../host-secret",
                             "/slash/../../../host-secret", "/slash/slash/../host-secret"}) {
        const auto read = files.read(path, 1_MiB);
        ASSERT_FALSE(read) << path;
        EXPECT_EQ(read.error().code, Code::NotFound) << path;
    }
    // Absolute means absolute inside.
    box.file("inside", "in");
    box.dir.link("/inside", "root/good");
    EXPECT_EQ(*files.read("/good", 64_B), "in");
    EXPECT_EQ(*files.read("/slash/slash/good", 64_B), "in");
}

TEST(SandboxFiles, AWriteThroughALinkStaysInside)
{
    const Sandbox box;
    box.dir.write("host-file", "host", 0666);
    box.dir.link("../host-file", "root/link");
    const auto files = box.files();
    static_cast<void>(files.write("/link", "evil", {.how = WriteOptions::How::InPlace}));
    EXPECT_TRUE(files.write("/link", "evil")); // replaces the link itself
    EXPECT_EQ(*read_file(box.dir / "host-file"), "host");
    EXPECT_EQ(files.stat("/link", Follow::No)->kind, FileKind::Regular);
}

TEST(SandboxFiles, RefusesMagicLinksLoopsAndTheKernelsInterfaces)
{
    const Sandbox box;
    box.dir.link("loop", "root/loop");
    box.dir.link("b", "root/a");
    box.dir.link("a", "root/b");
    const auto files = box.files();
    EXPECT_EQ(files.read("/loop", 64_B).error().code, Code::Invalid);
    EXPECT_EQ(files.read("/a", 64_B).error().code, Code::Invalid);

    // A root that shows a proc, as a sandbox's does.
    auto host = SandboxFiles::open(*open_dir("/"), box.ids);
    ASSERT_TRUE(host);
    for (const std::string path :
         {"/proc/self/root/etc/passwd", "/proc/self/cwd", "/proc/self/fd/0", "/proc/1/root/etc/passwd"}) {
        const auto read = host->read(path, 1_MiB);
        ASSERT_FALSE(read) << path;
        EXPECT_TRUE(read.error().code == Code::Invalid || read.error().code == Code::Denied)
            << read.error().line();
    }
    for (const std::string path :
         {"/proc", "/proc/version", "/proc/self/status", "/sys/kernel", "/dev/pts"}) {
        const auto stat = host->stat(path);
        ASSERT_FALSE(stat) << path;
        EXPECT_EQ(stat.error().code, Code::Denied) << stat.error().line();
        EXPECT_EQ(host->list(path).error().code == Code::Denied || path.ends_with("version") ||
                      path.ends_with("status"),
                  true)
            << path;
    }
    EXPECT_EQ(host->write("/proc/berth-test", "x").error().code, Code::Denied);
    EXPECT_EQ(host->make_dir("/proc/berth-test").error().code, Code::Denied);
}

TEST(SandboxFiles, PipesSocketsAndDevicesAreRefusedWithoutWaiting)
{
    const Sandbox box;
    ASSERT_EQ(::mkfifo((box.dir / "root/fifo").c_str(), 0666), 0);
    box.own("root/fifo");
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (box.dir / "root/socket").copy(address.sun_path, sizeof address.sun_path - 1);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::vector<std::string> names{"/fifo", "/socket"};
    if (::mknod((box.dir / "root/zero").c_str(), S_IFCHR | 0666, makedev(1, 5)) == 0)
        names.push_back("/zero");
    const auto files = box.files();
    for (const auto& name : names) {
        EXPECT_EQ(files.read(name, 64_B).error().code, Code::Invalid) << name;
        EXPECT_EQ(files.write(name, "x").error().code, Code::Invalid) << name;
        EXPECT_EQ(files.write(name, "x", {.how = WriteOptions::How::InPlace}).error().code, Code::Invalid)
            << name;
        EXPECT_EQ(files.stat(name)->kind, FileKind::Other) << name;
    }
}

TEST(SandboxFiles, BoundsWhatItReadsAndLists)
{
    const Sandbox box;
    box.file("big", std::string(1000, 'x'));
    box.directory("d");
    for (int i = 0; i < 10; ++i) box.file("d/" + std::to_string(i), "");
    const auto files = box.files();
    EXPECT_EQ(files.read("/big", 999_B).error().code, Code::Invalid);
    EXPECT_EQ(files.read("/big", 1000_B)->size(), 1000u);
    EXPECT_EQ(files.list("/d", 9).error().code, Code::Invalid);
    EXPECT_EQ(files.list("/d", 10)->size(), 10u);
}

TEST(SandboxFiles, ListsEntriesAsTheyAre)
{
    const Sandbox box;
    box.file("b", "12");
    box.directory("a");
    box.dir.link("/etc/passwd", "root/c");
    const auto entries = box.files().list("/");
    ASSERT_TRUE(entries);
    ASSERT_EQ(entries->size(), 3u);
    EXPECT_EQ((*entries)[0].name, "a");
    EXPECT_EQ((*entries)[0].kind, FileKind::Directory);
    EXPECT_EQ((*entries)[1].size, 2_B);
    EXPECT_EQ((*entries)[2].kind, FileKind::Symlink);
    EXPECT_EQ((*entries)[2].target, "/etc/passwd");
    EXPECT_EQ(box.files().list("/b").error().code, Code::Invalid);
}

TEST(SandboxFiles, AnAtomicWriteKeepsTheOldFileUntilItIsWhole)
{
    const Sandbox box;
    box.file("f", "old", 0640);
    const auto files = box.files();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd in(ends[0]);
    UniqueFd out(ends[1]);
    ASSERT_EQ(::write(out.get(), "toolong", 7), 7);
    out.reset();
    EXPECT_EQ(files.write_from("/f", in.get(), 3_B).error().code, Code::Invalid);
    EXPECT_EQ(*files.read("/f", 64_B), "old");
    EXPECT_EQ(files.list("/")->size(), 1u) << "the temporary was left";
    ASSERT_TRUE(files.write("/f", "new"));
    EXPECT_EQ(*files.read("/f", 64_B), "new");
    EXPECT_EQ(files.stat("/f")->mode, 0640u) << "keeps the mode of the old file";
}

TEST(SandboxFiles, ANewFileTakesNoNameThatIsTaken)
{
    const Sandbox box;
    const auto files = box.files();
    const WriteOptions fresh{.how = WriteOptions::How::New};
    ASSERT_TRUE(files.make_dir("/d", 0755));
    ASSERT_TRUE(files.write("/d/f", "first", fresh));
    ASSERT_EQ(::symlink("nowhere", (box.dir / "root/d/link").c_str()), 0);
    ASSERT_TRUE(files.make_dir("/d/sub", 0755));
    for (const char* taken : {"/d/f", "/d/link", "/d/sub"})
        EXPECT_EQ(files.write(taken, "second", fresh).error().code, Code::Conflict) << taken;
    EXPECT_EQ(*files.read("/d/f", 64_B), "first");
    EXPECT_EQ(files.list("/d")->size(), 3u) << "and nothing is left beside them";
}

TEST(SandboxFiles, NeverMakesSetIdFiles)
{
    const Sandbox box;
    const auto files = box.files();
    ASSERT_TRUE(files.write("/a", "x", {.mode = 06755}));
    ASSERT_TRUE(files.write("/b", "x", {.how = WriteOptions::How::InPlace, .mode = 06777}));
    ASSERT_TRUE(files.write("/b", "x", {.how = WriteOptions::How::InPlace, .mode = 04711}));
    ASSERT_TRUE(files.make_dir("/d", 06755));
    EXPECT_EQ(files.stat("/a")->mode, 0755u);
    EXPECT_EQ(files.stat("/b")->mode, 0711u);
    EXPECT_EQ(files.stat("/d")->mode & 06000, 0u);
}

TEST(SandboxFiles, MakesMovesAndRemoves)
{
    const Sandbox box;
    const auto files = box.files();
    EXPECT_EQ(files.make_dir("/x/y/z").error().code, Code::NotFound);
    ASSERT_TRUE(files.make_dir("/x/y/../y/z/", 0755, Parents::Make));
    ASSERT_TRUE(files.make_dir("/x/y", 0755, Parents::Make)) << "already there";
    EXPECT_EQ(files.make_dir("/x").error().code, Code::Conflict);
    ASSERT_TRUE(files.write("/x/f", "1"));
    EXPECT_EQ(files.make_dir("/x/f/g", 0755, Parents::Make).error().code, Code::Invalid);
    ASSERT_TRUE(files.write("/x/g", "2"));
    EXPECT_EQ(files.move("/x/f", "/x/g").error().code, Code::Conflict);
    ASSERT_TRUE(files.move("/x/f", "/x/g", Replace::Yes));
    EXPECT_EQ(*files.read("/x/g", 8_B), "1");
    EXPECT_EQ(files.remove("/x").error().code, Code::Conflict);
    ASSERT_TRUE(files.remove("/x", Depth::Tree));
    EXPECT_EQ(files.remove("/x", Depth::Tree).error().code, Code::NotFound);
    for (const char* bad : {"/", "", "/..", "."})
        EXPECT_EQ(files.remove(bad, Depth::Tree).error().code, Code::Invalid);
}

TEST(SandboxFiles, RemovesTheLinkNotItsTarget)
{
    const Sandbox box;
    box.directory("d");
    box.file("d/f", "x");
    box.dir.link("d", "root/link");
    const auto files = box.files();
    ASSERT_TRUE(files.remove("/link", Depth::Tree));
    EXPECT_TRUE(files.stat("/d/f"));
}

TEST(SandboxFiles, RefusesANulInAPath)
{
    const Sandbox box;
    box.file("f", "x");
    const auto files = box.files();
    const std::string path("/f\0/../../x", 11);
    EXPECT_EQ(files.read(path, 8_B).error().code, Code::Invalid);
    EXPECT_EQ(files.write(std::string("/f\0x", 4), "y").error().code, Code::Invalid);
}

TEST(SandboxFiles, ASwapperNeverGetsAHostFileReadOrWritten)
{
    const Sandbox box;
    box.dir.write("host-secret", "host", 0666);
    box.directory("d");
    box.file("d/host-secret", "inside");
    std::atomic<bool> stop{false};
    std::thread hostile([&] {
        const std::string d = box.dir / "root/d", link = box.dir / "root/link";
        while (!stop) {
            static_cast<void>(::symlink("..", link.c_str()));
            ::renameat2(AT_FDCWD, d.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE);
        }
    });
    const auto files = box.files();
    for (int i = 0; i < 3000; ++i) {
        if (const auto read = files.read("/d/host-secret", 64_B)) EXPECT_EQ(*read, "inside");
        static_cast<void>(files.write("/d/host-secret", "inside", {.how = WriteOptions::How::InPlace}));
    }
    stop = true;
    hostile.join();
    EXPECT_EQ(*read_file(box.dir / "host-secret"), "host");
}

} // namespace
} // namespace berth::sys
