# shellcheck shell=bash
#: tsan [CTEST ARGS...]  the whole test suite under the thread sanitizer
#:
#: The keeper and the child half of the launch are built without sanitizers:
#: one has no libc, the other shares memory with a suspended parent.
#: A test that forks where it has threads goes on in the child (die_after_fork=0).
export TSAN_OPTIONS="die_after_fork=0${TSAN_OPTIONS:+ $TSAN_OPTIONS}"
exec ./dev test --preset tsan "$@"
