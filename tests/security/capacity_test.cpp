// The host's capacity, and what berth says when a limit strikes.

#include <sys/resource.h>

#include <algorithm>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;

TEST(capacity, fork_bomb)
{
    const auto attempt = inside("/probe fork-bomb 500", {"--pids", "64"});
    EXPECT_THAT(attempt.out, ::testing::StartsWith("EAGAIN ")) << attempt.err;
    if (as_root()) EXPECT_THAT(attempt.err, HasSubstr("process limit 64"));
    EXPECT_EQ(answer("for i in 1 2 3 4 5; do sleep 0.01 & done; wait; echo ok", {"--pids", "64"}), "ok\n");
}

TEST(capacity, fork_bomb_that_forks_itself)
{
    const auto attempt = inside("b() { b | b & b; }; b 2>/dev/null; sleep 0.3; echo done",
                                {"--pids", "64", "--timeout", "20s"});
    EXPECT_NE(attempt.code, 125) << attempt.err;
    EXPECT_EQ(answer("echo next"), "next\n");
}

TEST(capacity, process_limit_is_also_the_kernels)
{
    EXPECT_EQ(answer("/probe limit processes; /probe raise-limit; /probe clone", {"--pids", "64"}),
              "64\nEPERM\nok\n");
}

TEST(capacity, memory_bomb)
{
    const auto attempt = inside("/probe memory-bomb 256", {"--memory", "64MiB"});
    if (as_root()) {
        EXPECT_NE(attempt.out, "ok\n");
        EXPECT_THAT(attempt.err, HasSubstr("memory limit 64 MiB"));
        EXPECT_EQ(answer("/probe memory-bomb 16", {"--memory", "64MiB"}), "ok\n");
    } else if (attempt.code == 125) {
        EXPECT_THAT(attempt.err, HasSubstr("memory")) << "refused by name";
    } else {
        EXPECT_THAT(attempt.err, HasSubstr("memory limit 64 MiB")) << "a delegated group";
    }
}

TEST(capacity, memory_bomb_by_files)
{
    const auto attempt = inside("/probe fill /tmp/f 256", {"--memory", "64MiB", "--disk", "512MiB"});
    if (!as_root() && attempt.code == 125) {
        EXPECT_THAT(attempt.err, HasSubstr("memory"));
        return;
    }
    EXPECT_NE(attempt.out, "ok\n") << "files of a throw-away sandbox are memory";
}

TEST(capacity, fill_the_disk)
{
    Words options{"--disk", "16MiB"};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(answer("/probe fill /tmp/f 64; /probe fill /usr/local/f 64; rm /tmp/f; /probe fill /tmp/g 4",
                     options),
              "ENOSPC\nENOSPC\nok\n");
}

TEST(capacity, fill_shared_memory)
{
    EXPECT_EQ(
        answer("/probe fill /dev/shm/f 80; rm /dev/shm/f; /probe fill /dev/shm/g 8", {"--disk", "64MiB"}),
        "ENOSPC\nok\n");
}

TEST(capacity, fill_the_inodes)
{
    EXPECT_EQ(answer("mkdir /tmp/d; /probe inodes /tmp/d 40000; rm -r /tmp/d; touch /tmp/f && echo ok",
                     {"--disk", "64MiB"}),
              "ENOSPC\nok\n");
}

TEST(capacity, open_descriptors_without_end)
{
    // A limit is a ceiling: where we ourselves have less, so has the sandbox.
    rlimit own{};
    ::getrlimit(RLIMIT_NOFILE, &own);
    EXPECT_EQ(answer("/probe many-descriptors 30000; /probe many-descriptors 1000; /probe limit files"),
              fmt::format("EMFILE\nok\n{}\n", std::min<rlim_t>(20000, own.rlim_max)));
    EXPECT_EQ(answer("/probe many-descriptors 200", {"--open-files", "100"}), "EMFILE\n");
}

TEST(capacity, flood_the_output)
{
    constexpr std::size_t kSize = 100u << 20;
    std::size_t seen = 0;
    bool same = true;
    const Around around{.output = [&](std::string_view bytes) {
        for (const char c : bytes) same = same && static_cast<unsigned char>(c) == seen++ % 251;
    }};
    const auto attempt = inside("/probe flood 100", {}, around);
    EXPECT_EQ(attempt.code, 0);
    EXPECT_EQ(seen, kSize);
    EXPECT_TRUE(same) << "every byte, in order";
    EXPECT_LT(attempt.peak_kib, 64 << 10) << "memory of berth itself";
}

TEST(capacity, leave_ten_thousand_zombies)
{
    EXPECT_EQ(answer("/probe zombies 10000; for i in $(seq 100); do set -- /proc/[0-9]*; test $# -lt 10 && "
                     "break; sleep "
                     "0.05; done; test $# -lt 10 && echo few"),
              "ok\nfew\n");
}

TEST(capacity, dump_core)
{
    // With one byte the kernel starts no handler of the host's (a piped core_pattern); with none it would.
    EXPECT_EQ(answer("/probe limit core; sh -c 'kill -SEGV $$'; ls core* 2>/dev/null; true"), "1\n");
    EXPECT_EQ(answer("ulimit -c 0 && ulimit -Hc 0 && /probe limit core"), "1\n");
    EXPECT_EQ(answer("prlimit --core=0 --pid $$ 2>/dev/null || true; /probe limit core"), "1\n");
}

TEST(capacity, hold_the_output_open)
{
    // A process that keeps the pipe must not keep berth: what is left dies with the sandbox.
    EXPECT_EQ(answer("sleep 600 & echo started"), "started\n");
}
