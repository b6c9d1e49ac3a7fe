# shellcheck shell=bash
#: fresh [-- CMD...]     prove ./dev run and ./dev test on a bare Debian 12
#:
#: A minimal Debian 12 (debootstrap, kept in the cache directory), a clone of
#: this repository's HEAD in it, nothing else: then ./dev run and ./dev test as
#: root, so that no install step that this machine happens to have can be
#: missing. Entered by pivot_root in its own mount and pid namespace. Says how
#: long each took and removes all of it. With -- CMD that runs instead.
#: Needs root. What is not committed is not tested.
need_root fresh
need fresh
source tools/dev/bare_debian.sh
if [[ ${1:-} == -- ]]; then shift; else set --; fi

scratch_root fresh
root=$SCRATCH/root
unpack_bare_debian "$root"
git clone -q --no-hardlinks "$TREE" "$root/srv/berth"
say "a bare Debian 12 with a clone of $(git rev-parse --short HEAD) is ready"

# Seconds of each command, told at the end.
report=()
timed() {
    local name=$1 begun=$SECONDS status=0
    shift
    enter "$root" "$@" 8>&- || status=$?
    report+=("$name: exit $status after $((SECONDS - begun)) s")
    return "$status"
}
in_tree() { timed "$*" bash -c 'cd /srv/berth && exec "$@"' fresh "$@"; }

status=0
if [[ $# -gt 0 ]]; then
    in_tree "$@" || status=$?
else
    { in_tree ./dev run && in_tree ./dev test; } || status=$?
fi
printf '%s\n' "${report[@]}"
exit "$status"
