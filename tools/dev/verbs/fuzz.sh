# shellcheck shell=bash
#: fuzz [SECONDS] [TARGET...]   run every fuzz target for that long (default 600)
#:
#: Targets are tests/fuzz/NAME_fuzz.cpp with seeds in tests/fuzz/corpus/NAME.
#: What libFuzzer finds on the way is kept in build/fuzz/corpus/NAME, what
#: fails in build/fuzz/artifacts/NAME. One summary line a target.
seconds=600
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
    seconds=$1
    shift
fi
need build sanitize

names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
    for source in tests/fuzz/*_fuzz.cpp; do
        [[ -e $source ]] || die 1 "there is no fuzz target in tests/fuzz"
        name=${source##*/}
        names+=("${name%_fuzz.cpp}")
    done
fi

build_tree fuzz "${names[@]/%/_fuzz}"

failed=0
for name in "${names[@]}"; do
    program=$TREE/build/fuzz/tests/fuzz/${name}_fuzz
    [[ -x $program ]] || die 2 "no fuzz target '$name'"
    grown=$TREE/build/fuzz/corpus/$name artifacts=$TREE/build/fuzz/artifacts/$name
    mkdir -p "$grown" "$artifacts"
    corpus=("$grown")
    if [[ -d tests/fuzz/corpus/$name ]]; then corpus+=("$TREE/tests/fuzz/corpus/$name"); fi
    log=$artifacts/log
    say "fuzzing $name for ${seconds} s"
    code=0
    "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$artifacts/" "${corpus[@]}" >"$log" 2>&1 || code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if ((code == 0)); then
        echo "$name: clean, ${runs:-0} runs in $seconds s, $(find "$grown" -type f | wc -l) inputs kept"
    else
        failed=1
        tail -n 40 "$log" >&2
        echo "$name: FAILED (exit $code), see $artifacts"
    fi
done
exit "$failed"
