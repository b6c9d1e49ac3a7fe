# shellcheck shell=bash
#: deps [GROUP...]       install the Debian packages that are missing
#:
#: Groups are those of tools/dev/packages.txt; without one: build and test.
#: Does nothing, in well under a second, when all of them are there. An
#: ordinary user is asked for sudo; nothing else of ./dev needs it.
if [[ $# -eq 0 ]]; then set -- build test; fi
need "$@"
say "all packages of: $* are installed"
