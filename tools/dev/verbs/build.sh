# shellcheck shell=bash
#: build [PRESET] [TARGET...]   build the program: build/berth
#:
#: Presets are those of CMakePresets.json (release, dev, asan, tsan, fuzz);
#: the default is release, into build/release. Without a target only the
#: programs berth and berth-hooks are built (the second carries the switches
#: that tests throw and is never shipped); "all" builds the tests too.
preset=release
if [[ $# -gt 0 ]]; then
    preset=$1
    shift
fi
need build
case $preset in asan | tsan | fuzz) need sanitize ;; esac
if [[ $# -eq 0 ]]; then
    if [[ $preset == fuzz ]]; then set -- all; else set -- berth berth-hooks; fi
fi
build_tree "$preset" "$@"
link_programs
