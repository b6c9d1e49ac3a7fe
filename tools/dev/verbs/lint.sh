# shellcheck shell=bash
#: lint [--quick]        format, layers, sizes, shell; clang-tidy on what changed
#:
#: clang-tidy sees the sources that differ from the commit before HEAD (or from
#: BERTH_LINT_BASE); ./dev tidy sees all. --quick leaves clang-tidy out.
#: A missing shellcheck is installed, as clang-tidy and clang-format are.
quick=0
if [[ ${1:-} == --quick ]]; then quick=1; fi
if ((quick)); then need check; else need build lint; fi

failed=0
step() {
    local name=$1
    shift
    if "$@"; then say "$name: ok"; else
        say "$name: FAILED"
        failed=1
    fi
}
check_format() { sources | xargs -r clang-format-19 --dry-run -Werror; }
check_shell() {
    shellcheck -x -S warning dev .ci/run tools/check-sizes tools/dev/{as-user,tidy,vm/guest} \
        tools/dev/*.sh tools/dev/vm/*.sh tools/dev/verbs/*.sh
}
check_tidy() {
    local base=${BERTH_LINT_BASE:-HEAD~1}
    git rev-parse -q --verify "$base^{commit}" >/dev/null || base=$(git hash-object -t tree /dev/null)
    [[ -f build/release/compile_commands.json ]] || cmake --preset release >/dev/null
    { git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' && git ls-files -o --exclude-standard -- 'src/*.cpp'; } |
        sort -u | tools/dev/tidy
}

step format check_format
step layers tools/check-layers
step sizes tools/check-sizes
if command -v shellcheck >/dev/null; then step shell check_shell; else say "shell: left out (./dev deps lint)"; fi
((quick)) || step clang-tidy check_tidy
exit "$failed"
