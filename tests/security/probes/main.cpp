#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "probe.hpp"

namespace probe {

int say(const std::string& line)
{
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    return kSaid;
}

} // namespace probe

int main(int argc, char** argv)
{
    const probe::Words words(argv + (argc > 1 ? 2 : 1), argv + argc);
    for (const auto probes :
         {probe::file_probes(), probe::mount_probes(), probe::process_probes(), probe::kernel_probes(),
          probe::network_probes(), probe::load_probes(), probe::pattern_probes()})
        for (const auto& entry : probes) {
            if (argc < 2 || std::strcmp(argv[1], entry.name) != 0) continue;
            const int result = entry.act(words);
            if (result == probe::kSaid) return 0;
            probe::say(result == 0 ? "ok" : ::strerrorname_np(result));
            return 0;
        }
    std::fprintf(stderr, "probe: no such attempt: %s\n", argc > 1 ? argv[1] : "");
    return 64;
}
