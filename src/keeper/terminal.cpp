// Terminals of the sandbox. The master is opened inside a file system that hostile code may have
// rearranged: what was opened is used only when it is the ptmx device, and nothing blocks.

#include "keeper/terminal.hpp"

#include <asm/termbits.h>
#include <fcntl.h>
#include <linux/major.h>
#include <sys/stat.h>

#include "keeper/sys.hpp"

namespace berth::keeper {
namespace {

constexpr int kTiocGetPeer = 0x5441, kTiocUnlock = 0x40045431, kTiocSetWindow = 0x5414, kTermGet = 0x5401;

int terminals = -1;

struct Window {
    std::uint16_t rows, columns, x, y;
};

bool is_ptmx(int fd)
{
    struct stat st{};
    return call(SYS_fstat, fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == device(TTYAUX_MAJOR, 2);
}

long open_master()
{
    constexpr int flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
    long fd = terminals < 0 ? -ENOENT : call(SYS_openat, terminals, "ptmx", flags | O_NOFOLLOW);
    // devpts mounted without ptmxmode= keeps its own node closed; then /dev/ptmx is the way.
    if (fd < 0) fd = call(SYS_openat, AT_FDCWD, "/dev/ptmx", flags);
    if (fd < 0) return fd;
    if (is_ptmx(static_cast<int>(fd))) return fd;
    call(SYS_close, fd);
    return -ENODEV;
}

} // namespace

void remember_terminals()
{
    terminals = static_cast<int>(
        call(SYS_openat, AT_FDCWD, "/dev/pts", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

long open_terminal(std::uint16_t rows, std::uint16_t columns, std::uint32_t uid, int& master, int& slave)
{
    const long opened = open_master();
    if (opened < 0) return opened;
    master = static_cast<int>(opened);
    const int unlocked = 0;
    long r = call(SYS_ioctl, master, kTiocUnlock, &unlocked);
    if (r >= 0) r = resize_terminal(master, rows, columns);
    if (r >= 0) r = call(SYS_ioctl, master, kTiocGetPeer, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (r < 0) {
        close_fd(master);
        return r;
    }
    slave = static_cast<int>(r);
    if (call(SYS_getuid) != uid) call(SYS_fchown, slave, uid, ~0u);
    return 0;
}

long resize_terminal(int master, std::uint16_t rows, std::uint16_t columns)
{
    const Window window{rows, columns, 0, 0};
    return call(SYS_ioctl, master, kTiocSetWindow, &window);
}

char end_of_file_character(int master)
{
    termios settings{};
    if (call(SYS_ioctl, master, kTermGet, &settings) < 0) return 4;
    return static_cast<char>(settings.c_cc[VEOF]);
}

} // namespace berth::keeper
