# shellcheck shell=bash
#: soak [N]   make, use and destroy N sandboxes (default 3000) and compare every count
#:
#: Processes, namespaces, mounts, control groups, descriptors and files before
#: and after are printed and must be equal. ./dev test does the same with 60.
count=${1:-3000}
[[ $count =~ ^[0-9]+$ ]] || die 2 "not a number: $count"
need build test
build_tree release crash
BERTH_SOAK=$count exec "$TREE/build/release/tests/crash/crash" --gtest_filter='Soak.*'
