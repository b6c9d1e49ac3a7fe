// Reads the acts, runs each in a child with a deadline, and tells what came of it.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "prober.hpp"

namespace prober {

namespace {

constexpr std::size_t kMaxInput = 1 << 20;
constexpr int kActSeconds = 10;
constexpr int kAllSeconds = 120;

char input[kMaxInput + 1];
char run_token[32] = "0";
char nonce[80] = "-"; ///< leads every line: only whoever reads our input knows it
pid_t running = 0;    ///< the act
int counter = 0;

char* path_room()
{
    static char rooms[4][4600];
    static int next = 0;
    return rooms[next++ % 4];
}

int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/// "%09" and the like become the byte, in place.
void decode(char* text)
{
    char* out = text;
    for (; *text != '\0'; ++text) {
        if (*text == '%' && hex(text[1]) >= 0 && hex(text[2]) >= 0) {
            *out++ = static_cast<char>(hex(text[1]) * 16 + hex(text[2]));
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

const char* name_of(Outcome outcome)
{
    switch (outcome) {
    case Outcome::Permitted: return "permitted";
    case Outcome::Refused: return "refused";
    case Outcome::Absent: return "absent";
    case Outcome::Unclear: return "unclear";
    case Outcome::Untried: return "untried";
    }
    return "unclear";
}

void tell(const char* number, const Answer& answer)
{
    char line[400];
    char text[200];
    std::size_t n = 0;
    for (const char* c = answer.text; *c != '\0' && n + 1 < sizeof text; ++c)
        text[n++] = *c >= ' ' && *c < 127 ? *c : '?';
    text[n] = '\0';
    const int size = std::snprintf(line, sizeof line, "%s\t%.12s\t%s\t%d\t%s\n", nonce, number,
                                   name_of(answer.outcome), answer.sure ? 1 : 0, text);
    (void)!::write(1, line, static_cast<std::size_t>(size));
}

Act find(const char* name)
{
    for (const Entries entries :
         {file_acts(), change_acts(), pattern_acts(), network_acts(), kernel_acts(), limit_acts()})
        for (std::size_t i = 0; i < entries.count; ++i)
            if (std::strcmp(entries.first[i].name, name) == 0) return entries.first[i].act;
    return nullptr;
}

/// The child's answer comes through a pipe; a child without one was killed or hung.
Answer attempt(Act act, const Words& words)
{
    Answer answer;
    int ends[2];
    if (::pipe(ends) != 0) {
        say(answer, Outcome::Unclear, false, "no pipe: %s", ::strerrorname_np(errno));
        return answer;
    }
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != parent) ::_exit(0);
        ::setpgid(0, 0);
        act(words, answer);
        (void)!::write(ends[1], &answer, sizeof answer);
        ::_exit(0);
    }
    ::close(ends[1]);
    if (child < 0) {
        say(answer, Outcome::Unclear, false, "no process: %s", ::strerrorname_np(errno));
        ::close(ends[0]);
        return answer;
    }
    running = child;
    pollfd waiting{ends[0], POLLIN, 0};
    const bool late = ::poll(&waiting, 1, kActSeconds * 1000) <= 0;
    Answer told;
    const bool whole = !late && ::read(ends[0], &told, sizeof told) == ssize_t{sizeof told};
    ::close(ends[0]);
    if (!whole) ::kill(-child, SIGKILL), ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    running = 0;
    if (whole) return told;
    if (late)
        say(answer, Outcome::Unclear, false, "no answer within %d s", kActSeconds);
    else
        say(answer, Outcome::Unclear, false, "killed by signal %d", WTERMSIG(status));
    return answer;
}

/// The parent of a process, and 0 for one that is only waiting to be reaped; -1: it is gone.
int parent_of(const char* pid)
{
    const int fd = ::open(joined(joined("/proc/", pid), "/stat"), O_RDONLY | O_CLOEXEC);
    char text[512] = {};
    if (fd < 0) return -1;
    (void)!::read(fd, text, sizeof text - 1);
    ::close(fd);
    const char* const end = std::strrchr(text, ')'); // the name before it may hold anything
    if (end == nullptr || end[1] == '\0' || end[2] == 'Z') return 0;
    return std::atoi(end + 3);
}

/// Processes beside this one and those it comes from. What came in from outside has no parent here.
int others()
{
    int count = 0;
    DIR* const dir = ::opendir("/proc");
    while (dir != nullptr) {
        const dirent* const entry = ::readdir(dir);
        if (entry == nullptr) break;
        const int pid = std::atoi(entry->d_name);
        if (pid <= 1 || pid == ::getpid() || pid == ::getppid()) continue;
        count += parent_of(entry->d_name) > 0;
    }
    if (dir != nullptr) ::closedir(dir);
    return count;
}

/// What those outside must know to choose the probes.
void facts()
{
    utsname system{};
    ::uname(&system);
    const char* home = ::getenv("HOME");
    char line[5000];
    const int size =
        std::snprintf(line, sizeof line, "%s\tfacts\t%u\t%d\t%s\t%s\t%.4000s\n", nonce, ::geteuid(), others(),
                      system.release, system.machine, home != nullptr ? home : "");
    (void)!::write(1, line, static_cast<std::size_t>(size));
}

void obey(char* line)
{
    Words words;
    const char* number = line;
    const char* name = "";
    int field = 0;
    for (char* rest = line; rest != nullptr && field < kMaxWords + 2; ++field) {
        char* const tab = std::strchr(rest, '\t');
        if (tab != nullptr) *tab = '\0';
        decode(rest);
        if (field == 1) name = rest;
        if (field >= 2) words.at[words.count++] = rest;
        rest = tab == nullptr ? nullptr : tab + 1;
    }
    if (std::strcmp(name, "nonce") == 0) {
        std::snprintf(nonce, sizeof nonce, "%s", words[0]);
        return;
    }
    if (std::strcmp(name, "token") == 0) return set_token(words[0]);
    if (std::strcmp(name, "facts") == 0) return facts();
    Answer answer;
    if (const Act act = find(name))
        answer = attempt(act, words);
    else
        say(answer, Outcome::Unclear, false, "no such act");
    // A counter that only the child had moved on would give a name twice.
    counter += 100;
    tell(number, answer);
}

} // namespace

void say(Answer& answer, Outcome outcome, bool sure, const char* format, ...)
{
    answer.outcome = outcome;
    answer.sure = sure;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(answer.text, sizeof answer.text, format, arguments);
    va_end(arguments);
}

void permitted(Answer& answer, const char* what) { say(answer, Outcome::Permitted, true, "%s", what); }

void untried(Answer& answer, const char* what, int error)
{
    const char* name = ::strerrorname_np(error);
    say(answer, Outcome::Untried, false, "%s: %s", what, name != nullptr ? name : "?");
}

void refused(Answer& answer, const char* what, int error, bool sure)
{
    const char* name = ::strerrorname_np(error);
    say(answer, Outcome::Refused, sure, "%s: %s", what, name != nullptr ? name : "?");
}

bool names_a_mount(int error) { return error == EROFS || error == EXDEV || error == EBUSY; }

const char* scratch_name(const char* dir)
{
    char* const room = path_room();
    std::snprintf(room, 4600, "%s/.berth-probe-%s-%d", std::strcmp(dir, "/") == 0 ? "" : dir, run_token,
                  counter++);
    return room;
}

void set_token(const char* token) { std::snprintf(run_token, sizeof run_token, "%s", token); }
const char* token() { return run_token; }

const char* joined(const char* a, const char* b)
{
    char* const room = path_room();
    std::snprintf(room, 4600, "%s%s", a, b);
    return room;
}

bool is_directory(const char* path)
{
    struct stat st{};
    return ::stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/// What an act started has its process group.
void out_of_time(int)
{
    if (running > 0) ::kill(-running, SIGKILL);
    ::_exit(1);
}

int main()
{
    // Before anything is read: nobody with the same user may look at our memory, or open our descriptors and
    // answer in our name.
    if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 1;
    ::signal(SIGALRM, out_of_time);
    ::alarm(kAllSeconds);
    ::signal(SIGPIPE, SIG_IGN);
    std::size_t have = 0;
    for (;;) {
        const ssize_t n = ::read(0, input + have, kMaxInput - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        have += static_cast<std::size_t>(n);
    }
    input[have] = '\0';
    for (char* rest = input; rest != nullptr && *rest != '\0';) {
        char* const end = std::strchr(rest, '\n');
        if (end != nullptr) *end = '\0';
        obey(rest);
        rest = end == nullptr ? nullptr : end + 1;
    }
    char last[100];
    const int size = std::snprintf(last, sizeof last, "%s\tend\n", nonce);
    (void)!::write(1, last, static_cast<std::size_t>(size));
    return 0;
}

} // namespace prober

int main() { return prober::main(); }
