# shellcheck shell=bash
#: tidy                  clang-tidy on every source; unchanged ones come from a cache
#:
#: Takes minutes the first time. A result is remembered by the contents of the
#: source, of all headers and of .clang-tidy, so a second run takes seconds.
need build lint
[[ -f build/release/compile_commands.json ]] || cmake --preset release >/dev/null
git ls-files -- 'src/*.cpp' | tools/dev/tidy
