# shellcheck shell=bash
#: bench [ARGS...]       build, then measure: build/berth bench ARGS
#:
#: Without arguments: all --peers. Installs the peers (bubblewrap, crun, runc).
#: Every figure is a ratio within the run; quiet machines give better ones.
need build bench
build_tree release berth berth-hooks
link_programs
if [[ $# -eq 0 ]]; then set -- all --peers; fi
exec build/berth bench "$@"
