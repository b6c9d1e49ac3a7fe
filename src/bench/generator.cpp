#include "bench/generator.hpp"

#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "bench/echo.hpp"

namespace berth::bench {

namespace {

constexpr long long kMaxWrite = 1 << 20;
constexpr long long kMaxTotal = 1ll << 40;

int bytes(long long size, long long total)
{
    const std::string block(static_cast<std::size_t>(size), 'x');
    for (long long done = 0; done < total; done += size)
        if (!write_all(STDOUT_FILENO, block)) return 1;
    return 0;
}

int stamps(long long count, long long micros)
{
    for (long long i = 0; i < count; ++i) {
        const timespec pause{.tv_sec = micros / 1'000'000, .tv_nsec = micros % 1'000'000 * 1000};
        ::nanosleep(&pause, nullptr);
        timespec now{};
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        const std::int64_t stamp = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
        if (::write(STDOUT_FILENO, &stamp, sizeof stamp) != sizeof stamp) return 1;
    }
    return 0;
}

} // namespace

int generate(int argc, char** argv)
{
    if (argc == 1 && std::string_view(argv[0]) == "echo") return serve_echo();
    if (argc != 3) return 2;
    const std::string_view what = argv[0];
    const auto first = parse_int(argv[1], 1, what == "bytes" ? kMaxWrite : kMaxTotal, "first number");
    const auto second = parse_int(argv[2], 1, kMaxTotal, "second number");
    if (!first || !second) return 2;
    if (what == "bytes") return bytes(*first, *second);
    if (what == "stamps") return stamps(*first, *second);
    return 2;
}

} // namespace berth::bench
