# shellcheck shell=bash
#: test [--preset P] [CTEST ARGS...]   build everything and run all tests
#:
#: Installs what the tests need, builds, and runs them through CTest. As root
#: the tests labelled `user` run a second time as an unprivileged user
#: (tools/dev/as-user). The last line is `N passed, N failed, N skipped`;
#: skips are listed by reason before it. Fails when a test fails or none ran.
#:
#: ./dev test -R Json        only the tests whose name matches
#: ./dev test -L security    only the tests with that label
preset=release
if [[ ${1:-} == --preset ]]; then
    preset=${2:?--preset needs a name}
    shift 2
fi
need build test
case $preset in asan | tsan) need sanitize ;; esac
build_tree "$preset" all
install_sdks "build/$preset" || true
link_programs

build=$TREE/build/$preset
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT
# Two for a core: many of them wait, for an engine, a deadline or a disk.
run_ctest=(ctest -j"$((2 * $(nproc)))" --timeout 300 --output-on-failure)

export BERTH_MATRIX=$reports/matrix
say "running the tests as $(id -un)"
tools/dev/reaping "${run_ctest[@]}" --test-dir "$build" --output-junit "$reports/$(id -un).xml" "$@" || true
passes=("$reports/$(id -un).xml")

if [[ $EUID -eq 0 ]]; then
    # CTest writes below its test directory, which is root's; a directory of the user's that
    # only refers to the build serves as well.
    say "running the tests labelled user as an ordinary user"
    # shellcheck disable=SC2016  # expanded by the inner shell
    tools/dev/reaping tools/dev/as-user bash -c '
        mkdir "$HOME/ctest" && echo "subdirs(\"$1\")" >"$HOME/ctest/CTestTestfile.cmake"
        shift
        "$@" --test-dir "$HOME/ctest" --output-junit "$HOME/report.xml" || true
        cat "$HOME/report.xml" >&9' as-user "$build" "${run_ctest[@]}" -L user "$@" 9>"$reports/user.xml" || true
    passes+=("$reports/user.xml")
fi
if [[ -s $BERTH_MATRIX ]]; then
    say "killed at every step (verb, backend, steps walked, what was lost, what was left):"
    sort "$BERTH_MATRIX" >&2
fi
status=0
python3 tools/dev/test-summary "${passes[@]}" || status=$?
exit "$status"
