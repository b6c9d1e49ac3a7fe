// The tests of this folder run the real program and try to break out of it. `--as=root` and
// `--as=user` choose who starts it; without, whoever we are. `--place=DIR --prepare`, then any number
// of runs with that place, then `--remove`, share one set of copies and one template.

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include <gtest/gtest.h>

#include "place.hpp"

int main(int argc, char** argv)
{
    ::testing::InitGoogleTest(&argc, argv);
    if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();

    security::Options options{.as_root = ::geteuid() == 0, .place = {}};
    bool prepare = false;
    bool remove = false;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word.starts_with("--as="))
            options.as_root = word == "--as=root";
        else if (word.starts_with("--place="))
            options.place = word.substr(8);
        else if (word == "--prepare")
            prepare = true;
        else if (word == "--remove")
            remove = true;
        else
            return std::fprintf(stderr, "security: unknown word %s\n", argv[i]), 2;
    }
    if (options.as_root && ::geteuid() != 0) {
        std::printf("[  SKIPPED ] needs root; run: sudo ctest -L security\n");
        return 0;
    }
    const bool own = options.place.empty();
    if (remove) return security::remove(options), 0;
    const std::string bad = prepare || own ? security::prepare(options) : security::enter(options);
    if (!bad.empty()) return std::fprintf(stderr, "security: %s\n", bad.c_str()), 1;
    if (prepare) return 0;
    const int result = RUN_ALL_TESTS();
    if (own) security::remove(options);
    return result;
}
