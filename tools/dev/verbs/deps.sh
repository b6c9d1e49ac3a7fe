# shellcheck shell=bash
#: deps [GROUP...]       install the Debian packages that are missing
#:
#: Groups are those of tools/dev/packages.txt; without one: build and test.
#: The group sdk is npm's: the SDKs and codex that tests run, as the lock files of
#: tests/sdk and tests/sdk/codex name them, into build/release/sdk.
#: Does nothing, in well under a second, when all of them are there. An
#: ordinary user is asked for sudo; nothing else of ./dev needs it.
if [[ $# -eq 0 ]]; then set -- build test; fi
groups=()
for group in "$@"; do
    if [[ $group == sdk ]]; then install_sdks build/release || exit 1; else groups+=("$group"); fi
done
[[ ${#groups[@]} -eq 0 ]] || need "${groups[@]}"
say "all packages of: $* are installed"
