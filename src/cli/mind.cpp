// The hidden verb `mind`: what `berth exec --detach --timeout` leaves behind.

#include "cli/mind.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/strings.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

void leave_minder(const std::string& data, const std::string& sandbox, const std::string& exec)
{
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        ::posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    posix_spawnattr_t how;
    ::posix_spawnattr_init(&how);
    ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&how, &none);
    std::string words[] = {"berth", "mind", std::filesystem::absolute(data).string(), sandbox, exec};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(),
                    words[3].data(), words[4].data(), nullptr};
    pid_t pid = -1;
    const int failed = ::posix_spawn(&pid, "/proc/self/exe", &files, &how, &argv[0], environ);
    ::posix_spawnattr_destroy(&how);
    ::posix_spawn_file_actions_destroy(&files);
    if (failed != 0)
        say(fmt::format("nobody stays with {} ({}): its timeout is held by berth serve and berth gc alone",
                        exec, std::generic_category().message(failed)));
}

int mind_verb(int argc, char** argv)
{
    if (argc != 4)
        return report({.code = Code::Invalid, .message = "berth exec --detach --timeout starts this"}, {});
    // Whoever lent us his directory may want to remove it.
    (void)!::chdir("/");
    Common common;
    common.data = argv[1];
    const auto minded = [&]() -> Status {
        BERTH_TRY(const auto berth, open_berth(common));
        BERTH_TRY(const auto record, berth->run(berth->lifecycle().find(argv[2])));
        return berth->run(berth->lifecycle().mind_exec(record, argv[3]));
    }();
    return minded ? 0 : report(minded.error(), common);
}

} // namespace berth::cli
