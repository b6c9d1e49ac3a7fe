# shellcheck shell=bash
#: asan [CTEST ARGS...]  the whole test suite under the address and undefined-behaviour sanitizers
#:
#: The keeper and the child half of the launch are built without sanitizers:
#: one has no libc, the other shares memory with a suspended parent.
exec ./dev test --preset asan "$@"
