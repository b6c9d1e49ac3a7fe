# shellcheck shell=bash
#: soak-server [N [ACTIVE [MINUTES]]]   hold N sandboxes in one server, ACTIVE commands always running
#:
#: Defaults: 2000 sandboxes, 200 commands, 10 minutes. Prints what a sandbox
#: costs and how long a command took, by minute; fails on any error, above the
#: bars of memory and descriptors, or when p99 grows. ./dev test does it with 40.
for number in "$@"; do [[ $number =~ ^[0-9.]+$ ]] || die 2 "not a number: $number"; done
need build test
build_tree release berth
exec tests/server/soak.py build/release/berth "${1:-2000}" "${2:-200}" "${3:-10}"
